//! The attributes `main` and `test` of `tasuki-rt`, which documents them: use them from there.
//!
//! An attribute puts `async fn name() -> T { body }` into a plain function of that name, which runs it on a runtime. No parser of Rust is needed for that: the
//! last group is the body, and whatever is between it and `fn` stays as it was written, with its place in the source.

mod options;

use options::{Options, Schedules};
use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// See `tasuki_rt::main`.
#[proc_macro_attribute]
pub fn main(options: TokenStream, function: TokenStream) -> TokenStream {
    let expanded = Options::of_main(options).and_then(|options| {
        let function = Function::parse(function)?;
        let body = run(&options, &function);
        Ok(function.with_body(TokenStream::new(), body))
    });
    expanded.unwrap_or_else(Wrong::into_tokens)
}

/// See `tasuki_rt::test`.
#[proc_macro_attribute]
pub fn test(options: TokenStream, function: TokenStream) -> TokenStream {
    let expanded = Options::of_test(options).and_then(|options| {
        let mut function = Function::parse(function)?;
        let body = match &options.schedules {
            None => run(&options, &function),
            Some(schedules) => {
                let body = explore(&options, *schedules, &function);
                function.return_nothing();
                body
            }
        };
        Ok(function.with_body(rust("#[::core::prelude::v1::test]"), body))
    });
    expanded.unwrap_or_else(Wrong::into_tokens)
}

/// What is wrong with the use of an attribute, and where.
struct Wrong {
    message: &'static str,
    at: Span,
}

impl Wrong {
    fn new(message: &'static str, at: Span) -> Self {
        Self { message, at }
    }

    fn into_tokens(self) -> TokenStream {
        let error = rust(&format!("::core::compile_error!{{{:?}}}", self.message));
        error.into_iter().map(|token| spanned(token, self.at)).collect()
    }
}

/// The token, and what is inside of it, with this place in the source.
fn spanned(mut token: TokenTree, at: Span) -> TokenTree {
    if let TokenTree::Group(group) = &token {
        let inner = group.stream().into_iter().map(|token| spanned(token, at)).collect();
        token = TokenTree::Group(Group::new(group.delimiter(), inner));
    }
    token.set_span(at);
    token
}

/// Tokens of our own.
fn rust(source: &str) -> TokenStream {
    source.parse().expect("our own source is valid")
}

/// An `async fn` without parameters, in three parts.
struct Function {
    /// Attributes and visibility.
    before: TokenStream,
    /// From `fn` up to the body.
    signature: TokenStream,
    body: Group,
}

impl Function {
    fn parse(function: TokenStream) -> Result<Self, Wrong> {
        let mut tokens: Vec<TokenTree> = function.into_iter().collect();
        while let [TokenTree::Group(item)] = &tokens[..] {
            // All of it is a fragment of a macro.
            tokens = item.stream().into_iter().collect();
        }
        let body = match tokens.pop().map(bare) {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => body,
            other => return Err(Wrong::new("expected an `async fn` with a body", span_of(other))),
        };
        let Some(start) = tokens.iter().position(|token| is(token, "fn")) else {
            return Err(Wrong::new("expected an `async fn`", span_of(tokens.into_iter().next())));
        };
        let signature = tokens.split_off(start);
        match tokens.iter().position(|token| is(token, "async")) {
            Some(at) => drop(tokens.remove(at)),
            None => return Err(Wrong::new("the function must be `async`", signature[0].span())),
        }
        takes_nothing(&signature)?;
        Ok(Self { before: tokens.into_iter().collect(), signature: signature.into_iter().collect(), body })
    }

    /// The `async fn`, to be an item of the plain function: not an `async` block, in which what is returned would not be coerced to the type that the function returns.
    fn as_written(&self) -> TokenStream {
        let body = TokenTree::Group(self.body.clone()).into();
        [rust("async"), self.signature.clone(), body].into_iter().collect()
    }

    /// A call of it.
    fn call(&self) -> TokenStream {
        let name = self.signature.clone().into_iter().nth(1).expect("it was looked at");
        [name.into(), rust("()")].into_iter().collect()
    }

    /// `fn name()` is left: a failure is a panic.
    fn return_nothing(&mut self) {
        self.signature = std::mem::take(&mut self.signature).into_iter().take(3).collect();
    }

    /// The same function, not `async`, with another attribute and another body.
    fn with_body(self, attribute: TokenStream, body: TokenStream) -> TokenStream {
        let mut group = Group::new(Delimiter::Brace, body);
        group.set_span(self.body.span());
        let group = TokenStream::from(TokenTree::Group(group));
        [attribute, self.before, self.signature, group].into_iter().collect()
    }
}

/// `fn name()`, and nothing else but what it returns.
fn takes_nothing(signature: &[TokenTree]) -> Result<(), Wrong> {
    match signature {
        [_, TokenTree::Ident(_), TokenTree::Group(parameters), ..]
            if parameters.delimiter() == Delimiter::Parenthesis =>
        {
            if !parameters.stream().is_empty() {
                return Err(Wrong::new("the function must not have parameters", parameters.span()));
            }
            Ok(())
        }
        [_, TokenTree::Ident(_), generic, ..] => {
            Err(Wrong::new("the function must not be generic", generic.span()))
        }
        _ => Err(Wrong::new("expected a name and `()`", signature[0].span())),
    }
}

/// The token without the group that a macro puts around a fragment, as around `$body:block`: nothing is written for it.
fn bare(token: TokenTree) -> TokenTree {
    if let TokenTree::Group(group) = &token {
        let mut inner = group.stream().into_iter();
        if let (Delimiter::None, Some(only), None) = (group.delimiter(), inner.next(), inner.next()) {
            return bare(only);
        }
    }
    token
}

fn is(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident.to_string() == word)
}

fn span_of(token: Option<TokenTree>) -> Span {
    token.map_or_else(Span::call_site, |token| token.span())
}

fn group(delimiter: Delimiter, inner: impl IntoIterator<Item = TokenStream>) -> TokenStream {
    TokenTree::Group(Group::new(delimiter, inner.into_iter().collect())).into()
}

/// Runs the body on a runtime of its own.
fn run(options: &Options, function: &Function) -> TokenStream {
    let workers = options
        .workers
        .as_ref()
        .map(|workers| [rust(".workers"), group(Delimiter::Parenthesis, [workers.clone().into()])]);
    let build = if options.local { "build_local" } else { "build" };
    [function.as_written(), options.krate.clone(), rust("::Runtime::builder()")]
        .into_iter()
        .chain(workers.into_iter().flatten())
        .chain([rust(&format!(".{build}().expect(\"the runtime can be made\").block_on"))])
        .chain([group(Delimiter::Parenthesis, [function.call()])])
        .collect()
}

/// Judges what a test returns, as the test harness does (`Termination`), and calls it: the name of the test follows. A result that is an error fails the schedule with that error, in a panic like
/// every other failure: `report` would print it for each schedule that is tried. The inherent order of methods tells results from the rest: by value comes before by reference. The function keeps
/// the type of the output as it is, also `!`. All of it is in a block of its own, where the body of the test does not see it.
const JUDGE: &str = r#"
    struct __Ended<T>(::core::option::Option<T>);
    async fn __ended<F: ::core::future::Future>(test: F) -> __Ended<F::Output> {
        __Ended(::core::option::Option::Some(test.await))
    }
    fn __succeeded(output: impl ::std::process::Termination) {
        let code = ::std::process::Termination::report(output);
        ::core::assert!(code == ::std::process::ExitCode::SUCCESS, "the test returns {code:?}");
    }
    trait __IsResult: ::core::marker::Sized {
        fn __judge(self);
    }
    impl<T: ::std::process::Termination, E: ::core::fmt::Debug> __IsResult for __Ended<::core::result::Result<T, E>> {
        fn __judge(self) {
            __succeeded(self.0.expect("an output").expect("the test returns an error"));
        }
    }
    trait __IsOther<T> {
        fn __judge(&mut self) where T: ::std::process::Termination;
    }
    impl<T> __IsOther<T> for __Ended<T> {
        fn __judge(&mut self) where T: ::std::process::Termination {
            __succeeded(self.0.take().expect("an output"));
        }
    }
    __ended
"#;

/// Explores schedules of the body, which is called once for each.
fn explore(options: &Options, schedules: Schedules, function: &Function) -> TokenStream {
    let future = group(Delimiter::Parenthesis, [function.call()]);
    // A type that no test may return is an error at that type.
    let at = function.signature.clone().into_iter().nth(5).map_or_else(Span::call_site, |of| of.span());
    let judge = rust(".await.__judge();").into_iter();
    let judge = judge.map(|token| spanned(token, Span::call_site().located_at(at))).collect();
    let call = group(Delimiter::Brace, [rust(JUDGE), future, judge]);
    let test = [rust("|| async"), call];
    let explore = match schedules {
        Schedules::Random(number) => {
            let arguments = [rust(&format!("{number},"))].into_iter().chain(test);
            vec![rust("::testing::check"), group(Delimiter::Parenthesis, arguments), rust(";")]
        }
        Schedules::Exhaustive(most) => {
            let limit = most.map_or_else(String::new, |most| format!(".schedules({most})"));
            let check = rust(&format!("::testing::Exhaustive::new(){limit}.check"));
            vec![check, group(Delimiter::Parenthesis, test), rust(".expect_complete();")]
        }
    };
    let before = [function.as_written(), rust("let _ ="), options.krate.clone()];
    before.into_iter().chain(explore).collect()
}

/// The path of the runtime's crate, unless it is told.
fn default_crate() -> TokenStream {
    rust("::tasuki_rt")
}

/// A word as it is written in options.
fn word(token: &TokenTree) -> Option<&Ident> {
    if let TokenTree::Ident(ident) = token { Some(ident) } else { None }
}
