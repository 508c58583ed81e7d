//! The Docker daemon: whether it is one for us, what others left in it, how it is reached from anywhere.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use testcontainers::GenericImage;
use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error as DockerError;
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::backend::variable;
use super::owner::Owner;
use super::{Backend, TestkitError};

const DEFAULT_IMAGE: &str = "zookeeper:3.9.4";
/// Every container of ours has it.
pub(super) const OWNER_LABEL: &str = "zookeeper-recipes.owner";
const PULL_LIMIT: Duration = Duration::from_secs(600);

/// Removes the containers of these names as far as `limit` allows; for places that cannot wait asynchronously.
pub(super) fn remove_blocking(names: Vec<String>, limit: Duration) {
    block_on(async move {
        let all = async {
            for name in names {
                if let Err(error) = remove(&name).await {
                    tracing::warn!("cannot remove the container {name}: {}", error.chain());
                }
            }
        };
        // What is left then is swept at the next start.
        let _ = timeout(limit, all).await;
    });
}

pub(super) fn block_on(work: impl Future<Output = ()> + Send + 'static) {
    if let Some(thread) = spawn(work) {
        let _ = thread.join();
    }
}

/// On a thread and a runtime of its own, as the caller may be on a runtime, on one that shuts down, or on none.
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Option<JoinHandle<()>> {
    let run = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => tracing::warn!("no runtime to talk to Docker on: {error}"),
    };
    let thread = thread::Builder::new().name("testkit-docker".to_owned()).spawn(run);
    thread.inspect_err(|error| tracing::warn!("no thread to talk to Docker on: {error}")).ok()
}

pub(super) async fn remove(name: &str) -> Result<(), TestkitError> {
    let docker = docker_client_instance().await.map_err(TestkitError::docker("be reached"))?;
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match docker.remove_container(name, Some(options)).await {
        // Gone already, or somebody else is at it.
        Err(error) if matches!(status(&error), Some(404 | 409)) => Ok(()),
        result => result.map_err(TestkitError::docker("remove the container")),
    }
}

/// A daemon that answers, on this machine.
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
    answer
        .await
        .map_err(|error: String| unavailable(format!("the Docker daemon does not answer: {error}")))
}

fn is_local(host: &str) -> bool {
    let rest = host.split_once("://").map_or(host, |(_, rest)| rest);
    host.starts_with("unix://")
        || ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| rest.starts_with(name))
}

/// Removes, once in this process, the containers of dead owners.
pub(super) async fn sweep(docker: &Docker) {
    static SWEPT: OnceCell<()> = OnceCell::const_new();
    SWEPT
        .get_or_init(|| async {
            let filters = [("label".to_owned(), vec![OWNER_LABEL.to_owned()])].into();
            let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
            let containers = docker.list_containers(Some(options)).await.unwrap_or_else(|error| {
                tracing::warn!("cannot look for containers that others left behind: {error}");
                Vec::new()
            });
            for container in containers {
                let label = container.labels.as_ref().and_then(|labels| labels.get(OWNER_LABEL));
                let owner = label.and_then(|label| Owner::parse(label));
                let (Some(owner), Some(id)) = (owner, container.id) else {
                    continue;
                };
                if !owner.is_dead() {
                    continue;
                }
                match remove(&id).await {
                    Ok(()) => tracing::info!("removed the container {id}, its owner is dead"),
                    Err(error) => {
                        tracing::warn!("cannot remove the container {id}: {}", error.chain())
                    }
                }
            }
        })
        .await;
}

pub(super) fn image_name() -> String {
    variable("ZOOKEEPER_IMAGE").unwrap_or_else(|| DEFAULT_IMAGE.to_owned())
}

/// The image, pulled if it is not here. Tried once in this process: a registry out of reach can take its time.
pub(super) async fn image(docker: &Docker) -> Result<GenericImage, TestkitError> {
    static PRESENT: OnceCell<Result<(), String>> = OnceCell::const_new();
    let full = image_name();
    // The colon of a registry's port comes before a slash.
    let (name, tag) =
        full.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((&full, "latest"));
    let image = GenericImage::new(name, tag);
    let present = PRESENT.get_or_init(|| async {
        if docker.inspect_image(&full).await.is_ok() {
            return Ok(());
        }
        tracing::info!("pulling the image {full}");
        match timeout(PULL_LIMIT, image.clone().pull_image()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("the image {full} is not here: {error}")),
            Err(_) => Err(format!(
                "the image {full} is not here and could not be pulled within {PULL_LIMIT:?}"
            )),
        }
    });
    match present.await {
        Ok(()) => Ok(image),
        Err(reason) => {
            Err(TestkitError::Unavailable { backend: Backend::Docker, reason: reason.clone() })
        }
    }
}

/// The daemon refuses what has no effect: to kill or to pause what does not run, to resume what is not paused.
pub(super) fn unless_so_already(result: Result<(), DockerError>) -> Result<(), DockerError> {
    match result {
        // Older daemons have no status of its own for the last.
        Err(DockerError::DockerResponseServerError { status_code: 409 | 500, message })
            if ["is not running", "is not paused", "is already paused"]
                .iter()
                .any(|text| message.contains(text)) =>
        {
            Ok(())
        }
        result => result,
    }
}

fn status(error: &DockerError) -> Option<u16> {
    match error {
        DockerError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// The daemon has no code for it.
pub(super) fn is_port_taken(error: &(dyn std::error::Error + Send + Sync)) -> bool {
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
