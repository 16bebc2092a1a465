//! What cancelling loses, peer by peer: each fact is tried, and the table in `docs/channels.md` is compared with what was found.
//! `TASUKI_WRITE=1 cargo test -p lab loss` writes it.

use crate::peer::AsyncChannel;
use crate::peers::{VisitChannel, each_channel};
use std::fmt::Write;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Waker};

/// What is between these lines of the document is the table.
const BEGIN: &str = "<!-- cancelling: begin -->\n";
const END: &str = "<!-- cancelling: end -->\n";

struct Table(String);

impl VisitChannel for Table {
    fn visit<C: AsyncChannel>(&mut self) {
        let yes = |is: Option<bool>| is.map_or("–", |is| if is { "yes" } else { "**no**" });
        let row = [
            Some(keeps_a_granted_message::<C>()),
            keeps_room_of_a_dropped_send::<C>(),
            Some(senders_are_not_overtaken::<C>()),
            receivers_are_not_overtaken::<C>(),
            hears_of_another_waker::<C>(),
        ];
        let _ = write!(self.0, "| {} |", C::NAME);
        row.into_iter().for_each(|fact| {
            let _ = write!(self.0, " {} |", yes(fact));
        });
        self.0.push('\n');
    }
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// A receive waits, a message comes, and the receive is dropped before it is polled: can the message be received?
fn keeps_a_granted_message<C: AsyncChannel>() -> bool {
    let (mut sender, mut receiver) = C::new(1);
    {
        let mut waiting = pin!(C::recv(&mut receiver));
        assert!(waiting.as_mut().poll(&mut cx()).is_pending(), "{}", C::NAME);
        assert!(C::try_send(&mut sender, 1), "{}", C::NAME);
    }
    C::try_recv(&mut receiver) == Some(1)
}

/// A send waits, room comes, and the send is dropped before it is polled: has its message gone, or is the room free for the next that waits? None if a new sender need not wait.
fn keeps_room_of_a_dropped_send<C: AsyncChannel>() -> Option<bool> {
    let (mut sender, mut receiver) = C::new(1);
    let mut second = sender.clone();
    assert!(C::try_send(&mut sender, 1), "{}", C::NAME);
    let mut next = pin!(C::send(&mut second, 3));
    {
        let mut waiting = pin!(C::send(&mut sender, 2));
        assert!(waiting.as_mut().poll(&mut cx()).is_pending(), "{}", C::NAME);
        if next.as_mut().poll(&mut cx()).is_ready() {
            return None;
        }
        assert_eq!(C::try_recv(&mut receiver), Some(1), "{}", C::NAME);
    }
    Some(C::try_recv(&mut receiver).is_some() || next.poll(&mut cx()).is_ready())
}

/// A send waits and room comes: is a newcomer refused?
fn senders_are_not_overtaken<C: AsyncChannel>() -> bool {
    let (mut sender, mut receiver) = C::new(1);
    let mut newcomer = sender.clone();
    assert!(C::try_send(&mut sender, 1), "{}", C::NAME);
    let mut waiting = pin!(C::send(&mut sender, 2));
    assert!(waiting.as_mut().poll(&mut cx()).is_pending(), "{}", C::NAME);
    assert_eq!(C::try_recv(&mut receiver), Some(1), "{}", C::NAME);
    !C::try_send(&mut newcomer, 3)
}

/// A receive waits and a message comes: is a newcomer refused? None if there is one receiver only.
fn receivers_are_not_overtaken<C: AsyncChannel>() -> Option<bool> {
    let (mut sender, mut receiver) = C::new(1);
    let mut second = C::second(&receiver)?;
    let mut waiting = pin!(C::recv(&mut receiver));
    assert!(waiting.as_mut().poll(&mut cx()).is_pending(), "{}", C::NAME);
    assert!(C::try_send(&mut sender, 1), "{}", C::NAME);
    Some(C::try_recv(&mut second).is_none())
}

/// A receive is polled with a second waker: is that the one that is woken?
fn hears_of_another_waker<C: AsyncChannel>() -> Option<bool> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (first, second) = (Arc::new(Count(AtomicUsize::new(0))), Arc::new(Count(AtomicUsize::new(0))));
    let (mut sender, mut receiver) = C::new(1);
    let mut waiting = pin!(C::recv(&mut receiver));
    for count in [&first, &second] {
        let waker = Waker::from(count.clone());
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "{}", C::NAME);
    }
    assert!(C::try_send(&mut sender, 1), "{}", C::NAME);
    Some(second.0.load(Ordering::Relaxed) > 0)
}

#[test]
fn the_table_of_losses_is_true() {
    let mut table = Table(
        "| channel | a dropped receive keeps its message | a dropped send strands no other | senders in order | receivers in order | another waker is heard |\n\
         |---|---|---|---|---|---|\n"
            .to_owned(),
    );
    each_channel(&mut table);
    let ours = table.0.lines().find(|line| line.starts_with("| tasuki ")).expect("ours is there").to_owned();
    assert!(!ours.contains("no") && !ours.contains('–'), "{ours}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/channels.md");
    let text = std::fs::read_to_string(&file).expect("the document is there");
    let begin = text.find(BEGIN).expect("the table begins") + BEGIN.len();
    let end = text.find(END).expect("the table ends");
    if std::env::var_os("TASUKI_WRITE").is_some() {
        let text = format!("{}{}{}", &text[..begin], table.0, &text[end..]);
        return std::fs::write(file, text).expect("it can be written");
    }
    assert_eq!(&text[begin..end], table.0, "write it anew: TASUKI_WRITE=1 cargo test -p lab loss");
}
