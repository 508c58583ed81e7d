//! Single operations against a real server, direct: a lock that is free, a lock that is busy, and the bare create and
//! delete below them. Needs a server, as the tests do.
#![allow(missing_docs)] // Criterion's macros
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a bench fails by it; its tasks are waited for

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;
use zookeeper_recipes::testkit::{Backend, TestServer, random_path};
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_recipes::{Curator, InterProcessMutex};

fn operations(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(server());
    let servers = server.connect_string();
    let mut group = criterion.benchmark_group("operations");

    let client = runtime.block_on(Client::connect(servers)).unwrap();
    let path = random_path("bare");
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    runtime.block_on(client.mkdir(&path, &persistent)).unwrap();
    let prefix = format!("{path}/lock-");
    group.bench_function("create and delete", |bench| {
        bench.to_async(&runtime).iter(|| {
            let (client, prefix) = (client.clone(), prefix.clone());
            spawned(async move {
                let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
                let (_, sequence) = client.create(&prefix, b"", &options).await.unwrap();
                client.delete(&format!("{prefix}{sequence}"), None).await.unwrap();
            })
        });
    });

    let curator = runtime.block_on(Curator::connect(servers)).unwrap();
    let mutex = InterProcessMutex::new(&curator, &random_path("free")).unwrap();
    group.bench_function("acquire and release", |bench| {
        bench.to_async(&runtime).iter(|| {
            let mutex = mutex.clone();
            spawned(async move { mutex.acquire().await.unwrap().release().await.unwrap() })
        });
    });

    let other = runtime.block_on(Curator::connect(servers)).unwrap();
    let busy = InterProcessMutex::new(&other, mutex.path()).unwrap();
    let held = runtime.block_on(mutex.acquire()).unwrap();
    group.bench_function("try_acquire, busy", |bench| {
        bench.to_async(&runtime).iter(|| {
            let busy = busy.clone();
            spawned(async move { assert!(busy.try_acquire().await.unwrap().is_none()) })
        });
    });
    group.finish();
    runtime.block_on(held.release()).unwrap();
    runtime.block_on(curator.close()).unwrap();
    runtime.block_on(other.close()).unwrap();
    drop(client);
    runtime.block_on(server.close()).unwrap();
}

/// A process if that can be had: a container's port is one hop more.
async fn server() -> TestServer {
    if std::env::var_os("ZOOKEEPER_BACKEND").is_none()
        && let Ok(server) = TestServer::builder().backend(Backend::Process).start().await
    {
        return server;
    }
    TestServer::start().await.unwrap()
}

/// As in a service, where the runtime's own threads do the work.
async fn spawned<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    tokio::spawn(work).await.unwrap()
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_secs(2))
        .measurement_time(Duration::from_secs(5));
    targets = operations
}
criterion_main!(benches);
