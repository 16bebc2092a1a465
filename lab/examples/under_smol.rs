//! The primitives under smol. They need nothing of a runtime but the waker of the task.
//!
//! `cargo run -p lab --example under_smol`

use std::sync::Arc;
use std::time::Duration;
use tasuki::{CancellationSource, Event, Mutex, ReentrantMutex, Semaphore, WaitGroup, task};

/// What the tasks share.
struct Shop {
    sales: Mutex<u64>,
    tills: Semaphore,
    open: Event,
    customers: Arc<WaitGroup>,
}

async fn customer(shop: Arc<Shop>) {
    shop.open.wait().await;
    for _ in 0..100 {
        let _till = shop.tills.acquire().await.expect("never closed");
        let mut sales = shop.sales.lock().await;
        // Held across an await of the runtime's own.
        smol::future::yield_now().await;
        *sales += 1;
    }
}

fn main() {
    smol::block_on(async {
        let customers = Arc::new(WaitGroup::new());
        let shop = Arc::new(Shop {
            sales: Mutex::new(0),
            tills: Semaphore::new(3),
            open: Event::manual(),
            customers: customers.clone(),
        });
        for _ in 0..20 {
            let (shop, member) = (shop.clone(), customers.clone().member_owned());
            smol::spawn(async move {
                customer(shop).await;
                drop(member);
            })
            .detach();
        }
        shop.open.set();
        shop.customers.wait().await;
        println!("{} sales", shop.sales.lock().await);

        // A wait may be given up by our own timers, by smol's, or on request; it leaves the queue each time.
        let held = shop.sales.lock().await;
        let short = Duration::from_millis(5);
        let ours = shop.sales.lock().timeout(short).await;
        let late = async {
            smol::Timer::after(short).await;
            None
        };
        let theirs = smol::future::or(async { Some(shop.sales.lock().await) }, late).await;
        let source = CancellationSource::new();
        let (token, closing) = (source.token(), shop.clone());
        let asked = smol::spawn(async move { closing.sales.lock().or_cancelled(&token).await.is_err() });
        source.request_cancel();
        let asked = asked.await;
        println!("given up: {} {} {asked}", ours.is_err(), theirs.is_none());
        drop(held);

        // A plain thread stands in the same queue as the tasks.
        let last = shop.clone();
        let thread = smol::unblock(move || *last.sales.lock().block());
        println!("a thread counts {}", thread.await);

        // Under a runtime that does not say who runs, a task says it itself.
        let depth = task::identify(async {
            let nested = ReentrantMutex::new(());
            let _outer = nested.lock().await.expect("the task has an identity");
            let inner = nested.lock().await.expect("the task has an identity");
            tasuki::ReentrantMutexGuard::depth(&inner)
        });
        println!("locked {} deep", depth.await);
    });
}
