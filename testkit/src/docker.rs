//! The Docker daemon: the check that we can use it, the removal of abandoned containers, and calls from any context.

use std::fmt;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error as DockerError;
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner;
use testcontainers::{Image, TestcontainersError};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::backend::variable;
use super::image::ZooKeeper;
use super::owner::Owner;
use super::scratch::unique_name;
use super::{Backend, TestkitError};

/// The label of all containers of the testkit.
pub(super) const OWNER_LABEL: &str = "zookeeper-recipes.owner";
const PULL_LIMIT: Duration = Duration::from_secs(600);
/// Waits for a line from us, or for our end. At our end, removes the container `$1` if the command `docker` is
/// installed.
const LAST_WILL: &str = r#"read -r _ || exec docker rm --force --volumes "$1""#;

/// The name of a container, chosen before Docker creates it. Dropping the name removes the container.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) text: String,
    /// The thread that creates and starts the container.
    pub(super) creation: Option<JoinHandle<()>>,
    /// Removes the container if a signal ends this process. Otherwise it would stay until the next start sweeps it.
    last_will: Option<Child>,
}

impl Name {
    pub(super) fn new() -> Self {
        let text = format!("zookeeper-recipes.{}", unique_name());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", LAST_WILL, "zookeeper-testkit", &text]).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { text, creation: None, last_will: shell.spawn().ok() }
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if let Some(creation) = self.creation.take() {
            let _ = creation.join();
        }
        let name = self.text.clone();
        let removal = spawn(async move {
            if let Err(error) = remove(&name).await {
                let error = error.chain();
                tracing::warn!("the container {name} stays until the next start: {error}");
            }
        });
        if let Some(removal) = removal {
            let _ = removal.join();
        }
        if let Some(mut shell) = self.last_will.take() {
            let _ = shell.stdin.take().map(|mut pipe| pipe.write_all(b"\n"));
            let _ = shell.wait();
        }
    }
}

/// Runs `work` on a thread and a runtime of its own, as the caller may be on a runtime, on one that shuts down, or on
/// none.
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Option<JoinHandle<()>> {
    let run = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => tracing::warn!("no runtime to talk to Docker on: {error}"),
    };
    let thread = thread::Builder::new().name("testkit-docker".to_owned()).spawn(run);
    thread.inspect_err(|error| tracing::warn!("no thread to talk to Docker on: {error}")).ok()
}

/// Removes a container, given its name or its id.
pub(super) async fn remove(name: &str) -> Result<(), TestkitError> {
    let docker = connect().await?;
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match docker.remove_container(name, Some(options)).await {
        // The container does not exist, or another process is removing it.
        Err(DockerError::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
        result => result.map_err(TestkitError::cannot("remove the container")),
    }
}

/// Connects to a daemon on this machine, and checks that it answers.
pub(super) async fn connect() -> Result<Docker, TestkitError> {
    let unavailable = |reason| TestkitError::Unavailable { backend: Backend::Docker, reason };
    if let Some(host) = variable("DOCKER_HOST").filter(|host| !is_local(host)) {
        return Err(unavailable(format!(
            "DOCKER_HOST is `{host}`, but servers listen on 127.0.0.1 of the daemon's own machine"
        )));
    }
    let answer = async {
        let docker = docker_client_instance().await.map_err(|error| error.to_string())?;
        docker.ping().await.map_err(|error| error.to_string())?;
        Ok(docker)
    };
    let silent = |error: String| format!("the Docker daemon does not answer: {error}");
    answer.await.map_err(|error| unavailable(silent(error)))
}

fn is_local(host: &str) -> bool {
    let rest = host.split_once("://").map_or(host, |(_, rest)| rest);
    host.starts_with("unix://")
        || ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| rest.starts_with(name))
}

/// Removes the containers of dead owners, once in each process.
pub(super) async fn sweep(docker: &Docker) {
    static SWEPT: OnceCell<()> = OnceCell::const_new();
    let sweeping = async {
        let filters = [("label".to_owned(), vec![OWNER_LABEL.to_owned()])].into();
        let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
        let containers = docker.list_containers(Some(options)).await.unwrap_or_else(|error| {
            tracing::warn!("cannot look for containers that others left behind: {error}");
            Vec::new()
        });
        for container in containers {
            let label = container.labels.as_ref().and_then(|labels| labels.get(OWNER_LABEL));
            let is_left = label.and_then(|label| Owner::parse(label)).is_some_and(|o| o.is_dead());
            let Some(id) = container.id.filter(|_| is_left) else { continue };
            match remove(&id).await {
                Ok(()) => tracing::info!("removed the container {id}, its owner is dead"),
                Err(error) => tracing::warn!("{}: {id}", error.chain()),
            }
        }
    };
    SWEPT.get_or_init(|| sweeping).await;
}

/// Returns the image, pulled if it is missing. A process tries that once, because an unreachable registry costs time.
pub(super) async fn image(docker: &Docker) -> Result<ZooKeeper, TestkitError> {
    static PRESENT: OnceCell<Result<(), String>> = OnceCell::const_new();
    let image = ZooKeeper::default();
    let full = format!("{}:{}", image.name(), image.tag());
    let present = PRESENT.get_or_init(|| async {
        if docker.inspect_image(&full).await.is_ok() {
            return Ok(());
        }
        tracing::info!("pulling the image {full}");
        let pulled = timeout(PULL_LIMIT, image.clone().pull_image()).await;
        let error = match pulled {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not pulled within {PULL_LIMIT:?}"),
        };
        Err(format!("the image {full} is not here: {error}"))
    });
    let unavailable = |reason| TestkitError::Unavailable { backend: Backend::Docker, reason };
    present.await.clone().map(|()| image).map_err(unavailable)
}

/// Turns the errors of a request without effect into success: to kill or pause a container that does not run, or to
/// resume one that is not paused. The daemon has no error code for them.
pub(super) fn unless_so_already<E: fmt::Display>(result: Result<(), E>) -> Result<(), E> {
    let already = ["is not running", "is not paused", "is already paused"];
    match result {
        Err(error) if already.iter().any(|text| error.to_string().contains(text)) => Ok(()),
        result => result,
    }
}

/// Returns true if the port is taken. The daemon has no error code for that.
pub(super) fn is_port_taken(error: &TestcontainersError) -> bool {
    let text = error.to_string();
    text.contains("port is already allocated") || text.contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn daemons_on_this_machine() {
        for host in [
            "unix:///var/run/docker.sock",
            "tcp://127.0.0.1:2375",
            "tcp://localhost:2375",
            "http://[::1]:1",
        ] {
            assert!(is_local(host), "{host}");
        }
        for host in ["tcp://docker:2375", "ssh://me@host", "tcp://10.0.0.1:2375"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
