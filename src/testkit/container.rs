//! A server in a Docker container.
//!
//! Its data lies in the image's own volumes: they outlive a stop and a kill, and go with the container. A folder of
//! ours mounted into it would need the image's user to own it.

use std::fmt;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::bollard::errors::Error as DockerError;
use testcontainers::bollard::models::PortBinding;
use testcontainers::bollard::query_parameters::{
    KillContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use testcontainers::core::IntoContainerPort;
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout;

use super::backend::variable;
use super::error::Cause;
use super::options::ServerOptions;
use super::owner::Owner;
use super::port::Port;
use super::process::tail;
use super::scratch::unique_name;
use super::{Backend, TestkitError, four_letter, signals};

const DEFAULT_IMAGE: &str = "zookeeper:3.9.4";
const OWNER_LABEL: &str = "zookeeper-recipes.owner";
/// ZooKeeper's own, inside the container.
const CLIENT_PORT: u16 = 2181;
/// From the request to end until the kill.
const GRACE_SECONDS: i32 = 10;
const PULL_LIMIT: Duration = Duration::from_secs(600);

/// A container, from before Docker knows of it until it is removed.
pub(super) struct Container {
    name: String,
    /// Creates and starts it.
    creation: Option<JoinHandle<()>>,
    /// `None` while it is created, and when its removal has begun.
    container: Option<ContainerAsync<GenericImage>>,
    port: Port,
    start_timeout: Duration,
}

impl Container {
    pub(super) async fn start(options: &ServerOptions, port: Port) -> Result<Self, TestkitError> {
        let docker = connect().await?;
        sweep(&docker).await;
        let image = image(&docker).await?;
        let name = format!("zookeeper-recipes.{}", unique_name());
        tracing::info!(
            "starting the ZooKeeper container {name} at {}",
            port.address()
        );
        signals::watch(&name);
        let request = request(image, &name, options, port.number());
        let start_timeout = options.start_timeout;
        let mut this = Self {
            name,
            creation: None,
            container: None,
            port,
            start_timeout,
        };
        match this.create(request).await {
            Ok(container) => this.container = Some(container),
            Err(error) if is_port_taken(error.as_ref()) => {
                return Err(TestkitError::PortTaken {
                    port: this.port.number(),
                });
            }
            Err(error) => {
                return Err(TestkitError::docker(format!(
                    "start a container of {}",
                    image_name()
                ))(error));
            }
        }
        this.until_serving().await?;
        Ok(this)
    }

    /// Once begun it is not given up: the daemon may create the container of a request that we no longer wait for, and
    /// only after we have looked for something to remove. Who cancels the start waits for its end in `drop`.
    async fn create(
        &mut self,
        request: ContainerRequest<GenericImage>,
    ) -> Result<ContainerAsync<GenericImage>, Cause> {
        let (sender, receiver) = oneshot::channel();
        self.creation = spawn(async move {
            if let Err(Ok(unwanted)) = sender.send(request.start().await) {
                let _ = unwanted.rm().await;
            }
        });
        Ok(receiver
            .await
            .map_err(|_| "the thread that starts it has ended")??)
    }

    pub(super) async fn start_again(&self) -> Result<(), TestkitError> {
        let container = self.container()?;
        if !container
            .is_running()
            .await
            .map_err(TestkitError::docker("inspect the container"))?
        {
            tracing::info!("starting the ZooKeeper container {} again", self.name);
            container
                .start()
                .await
                .map_err(TestkitError::docker("start the container again"))?;
        }
        self.until_serving().await
    }

    pub(super) async fn stop(&self) -> Result<(), TestkitError> {
        let stopped = self
            .container()?
            .stop_with_timeout(Some(GRACE_SECONDS))
            .await;
        stopped.map_err(TestkitError::docker("stop the container"))
    }

    pub(super) async fn kill(&self) -> Result<(), TestkitError> {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        match connect()
            .await?
            .kill_container(&self.name, Some(options))
            .await
        {
            // It is not running, which is what was asked for.
            Err(error) if status(&error) == Some(409) => Ok(()),
            result => result.map_err(TestkitError::docker("kill the container")),
        }
    }

    pub(super) async fn pause(&self) -> Result<(), TestkitError> {
        self.container()?
            .pause()
            .await
            .map_err(TestkitError::docker("pause the container"))
    }

    pub(super) async fn resume(&self) -> Result<(), TestkitError> {
        self.container()?
            .unpause()
            .await
            .map_err(TestkitError::docker("resume the container"))
    }

    pub(super) async fn close(mut self) -> Result<(), TestkitError> {
        let Some(container) = self.container.take() else {
            return Ok(());
        };
        container
            .rm()
            .await
            .map_err(TestkitError::docker("remove the container"))
    }

    async fn until_serving(&self) -> Result<(), TestkitError> {
        let address = self.port.address();
        if timeout(self.start_timeout, four_letter::until_serving(&address))
            .await
            .is_ok()
        {
            return Ok(());
        }
        let fate = format!("did not serve within {:?}", self.start_timeout);
        Err(TestkitError::NotServing {
            backend: Backend::Docker,
            address,
            fate,
            log: self.log_tail().await,
        })
    }

    async fn log_tail(&self) -> String {
        let Ok(container) = self.container() else {
            return "(no container)".to_owned();
        };
        let mut log = container.stdout_to_vec().await.unwrap_or_default();
        log.extend(container.stderr_to_vec().await.unwrap_or_default());
        tail(&log)
    }

    fn container(&self) -> Result<&ContainerAsync<GenericImage>, TestkitError> {
        self.container
            .as_ref()
            .ok_or_else(|| TestkitError::docker("use the container")("it was never started"))
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container")
            .field("name", &self.name)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(creation) = self.creation.take() {
            let _ = creation.join();
        }
        let name = self.name.clone();
        let container = self.container.take();
        // The container's own destructor panics outside a runtime. By name goes what a failed or a cancelled start has
        // left behind, and what `close` could not remove; mostly there is nothing.
        block_on(async move {
            let removed = match container {
                Some(container) => container
                    .rm()
                    .await
                    .map_err(TestkitError::docker("remove the container")),
                None => remove(&name).await,
            };
            if let Err(error) = removed {
                tracing::warn!(
                    "the container {name} stays until the next start sweeps it: {}",
                    error.chain()
                );
            }
        });
        signals::forget(&self.name);
    }
}

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

fn block_on(work: impl Future<Output = ()> + Send + 'static) {
    if let Some(thread) = spawn(work) {
        let _ = thread.join();
    }
}

/// On a thread and a runtime of its own, as the caller may be on a runtime, on one that shuts down, or on none.
fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Option<JoinHandle<()>> {
    let run = move || match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => tracing::warn!("no runtime to talk to Docker on: {error}"),
    };
    let thread = thread::Builder::new()
        .name("testkit-docker".to_owned())
        .spawn(run);
    thread
        .inspect_err(|error| tracing::warn!("no thread to talk to Docker on: {error}"))
        .ok()
}

async fn remove(name: &str) -> Result<(), TestkitError> {
    let docker = docker_client_instance()
        .await
        .map_err(TestkitError::docker("be reached"))?;
    let options = RemoveContainerOptionsBuilder::new()
        .force(true)
        .v(true)
        .build();
    match docker.remove_container(name, Some(options)).await {
        // Gone already, or somebody else is at it.
        Err(error) if matches!(status(&error), Some(404 | 409)) => Ok(()),
        result => result.map_err(TestkitError::docker("remove the container")),
    }
}

/// A daemon that answers, on this machine.
async fn connect() -> Result<Docker, TestkitError> {
    let unavailable = |reason| TestkitError::Unavailable {
        backend: Backend::Docker,
        reason,
    };
    if let Some(host) = variable("DOCKER_HOST").filter(|host| !is_local(host)) {
        return Err(unavailable(format!(
            "DOCKER_HOST is `{host}`, but servers listen on 127.0.0.1 of the daemon's own machine"
        )));
    }
    let answer = async {
        let docker = docker_client_instance()
            .await
            .map_err(|error| error.to_string())?;
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
        || ["127.0.0.1", "localhost", "[::1]"]
            .iter()
            .any(|name| rest.starts_with(name))
}

/// Removes, once in this process, the containers of dead owners.
async fn sweep(docker: &Docker) {
    static SWEPT: OnceCell<()> = OnceCell::const_new();
    SWEPT
        .get_or_init(|| async {
            let filters = [("label".to_owned(), vec![OWNER_LABEL.to_owned()])].into();
            let options = ListContainersOptionsBuilder::new()
                .all(true)
                .filters(&filters)
                .build();
            let containers = docker
                .list_containers(Some(options))
                .await
                .unwrap_or_else(|error| {
                    tracing::warn!("cannot look for containers that others left behind: {error}");
                    Vec::new()
                });
            for container in containers {
                let label = container
                    .labels
                    .as_ref()
                    .and_then(|labels| labels.get(OWNER_LABEL));
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

fn image_name() -> String {
    variable("ZOOKEEPER_IMAGE").unwrap_or_else(|| DEFAULT_IMAGE.to_owned())
}

/// The image, pulled if it is not here. Tried once in this process: a registry out of reach can take its time.
async fn image(docker: &Docker) -> Result<GenericImage, TestkitError> {
    static PRESENT: OnceCell<Result<(), String>> = OnceCell::const_new();
    let full = image_name();
    // The colon of a registry's port comes before a slash.
    let (name, tag) = full
        .rsplit_once(':')
        .filter(|(_, tag)| !tag.contains('/'))
        .unwrap_or((&full, "latest"));
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
        Err(reason) => Err(TestkitError::Unavailable {
            backend: Backend::Docker,
            reason: reason.clone(),
        }),
    }
}

fn request(
    image: GenericImage,
    name: &str,
    options: &ServerOptions,
    port: u16,
) -> ContainerRequest<GenericImage> {
    let environment = [
        ("ZOO_TICK_TIME", options.tick_time.as_millis().to_string()),
        ("ZOO_MAX_CLIENT_CNXNS", "0".to_owned()),
        ("ZOO_STANDALONE_ENABLED", "true".to_owned()),
        ("ZOO_ADMINSERVER_ENABLED", "false".to_owned()),
        ("ZOO_4LW_COMMANDS_WHITELIST", "*".to_owned()),
        (
            "ZOO_CFG_EXTRA",
            options.extra_lines().collect::<Vec<_>>().join(" "),
        ),
        (
            "JVMFLAGS",
            options.all_jvm_flags().collect::<Vec<_>>().join(" "),
        ),
    ];
    let request = image
        .with_exposed_port(CLIENT_PORT.tcp())
        .with_container_name(name)
        .with_label(OWNER_LABEL, Owner::current().to_string())
        .with_host_config_modifier(move |host| {
            // Only the ports named here, and not for the world: the default is all of the image's on all addresses.
            let binding = PortBinding {
                host_ip: Some("127.0.0.1".to_owned()),
                host_port: Some(port.to_string()),
            };
            host.publish_all_ports = Some(false);
            host.port_bindings = Some([(format!("{CLIENT_PORT}/tcp"), Some(vec![binding]))].into());
        });
    environment
        .into_iter()
        .fold(request, |request, (key, value)| {
            request.with_env_var(key, value)
        })
}

fn status(error: &DockerError) -> Option<u16> {
    match error {
        DockerError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// The daemon has no code for it.
fn is_port_taken(error: &(dyn std::error::Error + Send + Sync)) -> bool {
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
