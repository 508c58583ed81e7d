//! Programs that do not compile.
#![allow(dead_code)]

use zookeeper_recipes::{Error, Guard, Guards, Hold, InterProcessMutex, Lock};

async fn a_guard_is_no_option(mutex: InterProcessMutex) -> Result<(), Error> {
    if mutex.try_acquire().await?.is_some() {} //~ E0599
    let _token = mutex.try_acquire().await?.map(|guard: Guard| guard.fencing_token()); //~ E0599
    let Some(_guard) = mutex.try_acquire().await? else { return Ok(()) }; //~ E0308
    Ok(())
}

async fn a_guard_is_no_result(mutex: InterProcessMutex) -> Result<(), Error> {
    let _guard = mutex.try_acquire().await??; //~ E0277
    Ok(())
}

/// It would be a view that keeps nothing.
fn a_guard_is_not_cloned(guard: &Guard) -> Guard {
    guard.clone() //~ E0308
}

fn a_hold_is_not_cloned(hold: &Hold) {
    let _: Hold = hold.clone(); //~ E0308
}

fn guards_are_no_slice(guards: &Guards) {
    let _ = guards.first(); //~ E0599
}

async fn a_body_of_run_gives_a_result(mutex: InterProcessMutex) {
    let _ = mutex.run(async |_| 7).await; //~ E0308
}

async fn an_error_of_another_crate_needs_with(mutex: InterProcessMutex) -> std::io::Result<()> {
    mutex.run(async |_| Ok::<(), std::io::Error>(())).await //~ E0277
}

#[derive(Debug)]
struct Mine;

impl Lock for Mine { //~ E0277
    fn path(&self) -> &str {
        ""
    }

    fn acquire(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send + '_>> {
        todo!()
    }

    fn try_acquire(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send + '_>> {
        todo!()
    }

    fn acquire_timeout(
        &self,
        _: std::time::Duration,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send + '_>> {
        todo!()
    }
}

fn main() {}
