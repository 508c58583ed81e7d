//! A server in a Docker container.
//!
//! Its data lies in the image's own volumes: they outlive a stop and a kill, and go with the container. A folder of
//! ours mounted into it would need the image's user to own it.

use std::fmt;
use std::thread::JoinHandle;
use std::time::Duration;

use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::bollard::query_parameters::KillContainerOptionsBuilder;
use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::docker::{self, OWNER_LABEL};
use super::error::Cause;
use super::options::{INIT_LIMIT, SYNC_LIMIT, ServerOptions};
use super::owner::Owner;
use super::process::tail;
use super::scratch::unique_name;
use super::seat::Seat;
use super::signals::Leftover;
use super::{Backend, TestkitError, four_letter, security, signals};

/// How often a container is told to pause before that is an error.
const PAUSES: usize = 5;

/// ZooKeeper's own, inside the container.
const CLIENT_PORT: u16 = 2181;
const SECURE_PORT: u16 = 2281;
/// Where our files are, inside the container.
const FOLDER: &str = "/testkit";
/// From the request to end until the kill.
const GRACE_SECONDS: i32 = 10;
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// A container, from before Docker knows of it until it is removed.
pub(super) struct Container {
    name: String,
    /// Creates and starts it.
    creation: Option<JoinHandle<()>>,
    /// `None` while it is created, and when its removal has begun.
    container: Option<ContainerAsync<GenericImage>>,
    seat: Seat,
    start_timeout: Duration,
}

impl Container {
    pub(super) async fn launch(options: &ServerOptions, seat: Seat) -> Result<Self, TestkitError> {
        let daemon = docker::connect().await?;
        docker::sweep(&daemon).await;
        let image = docker::image(&daemon).await?;
        let name = format!("zookeeper-recipes.{}", unique_name());
        tracing::info!("starting the ZooKeeper container {name} at {}", seat.client.address());
        signals::watch(Leftover::Container(name.clone()));
        let request = request(image, &name, options, &seat);
        let start_timeout = options.start_timeout;
        let mut this = Self { name, creation: None, container: None, seat, start_timeout };
        match this.create(request).await {
            Ok(container) => this.container = Some(container),
            Err(error) if docker::is_port_taken(error.as_ref()) => {
                return Err(TestkitError::PortTaken { port: this.seat.client.number() });
            }
            Err(error) => {
                return Err(TestkitError::docker(format!(
                    "start a container of {}",
                    docker::image_name()
                ))(error));
            }
        }
        Ok(this)
    }

    /// Once begun it is not given up: the daemon may create the container of a request that we no longer wait for, and
    /// only after we have looked for something to remove. Who cancels the start waits for its end in `drop`.
    async fn create(
        &mut self,
        request: ContainerRequest<GenericImage>,
    ) -> Result<ContainerAsync<GenericImage>, Cause> {
        let (sender, receiver) = oneshot::channel();
        self.creation = docker::spawn(async move {
            if let Err(Ok(unwanted)) = sender.send(request.start().await) {
                let _ = unwanted.rm().await;
            }
        });
        Ok(receiver.await.map_err(|_| "the thread that starts it has ended")??)
    }

    pub(super) async fn start_again(&self) -> Result<(), TestkitError> {
        self.launch_again().await?;
        self.until_serving().await
    }

    pub(super) async fn launch_again(&self) -> Result<(), TestkitError> {
        let container = self.container()?;
        if container.is_running().await.map_err(TestkitError::docker("inspect the container"))? {
            // It may be paused.
            return self.resume().await;
        }
        tracing::info!("starting the ZooKeeper container {} again", self.name);
        container.start().await.map_err(TestkitError::docker("start the container again"))
    }

    pub(super) async fn stop(&self) -> Result<(), TestkitError> {
        let stopped = self.container()?.stop_with_timeout(Some(GRACE_SECONDS)).await;
        stopped.map_err(TestkitError::docker("stop the container"))
    }

    pub(super) async fn kill(&self) -> Result<(), TestkitError> {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        let daemon = docker::connect().await?;
        let killed = daemon.kill_container(&self.name, Some(options)).await;
        docker::unless_so_already(killed).map_err(TestkitError::docker("kill the container"))
    }

    pub(super) async fn pause(&self) -> Result<(), TestkitError> {
        let docker = docker::connect().await?;
        let mut tries = PAUSES;
        let paused = loop {
            let paused = docker.pause_container(&self.name).await;
            tries -= 1;
            // On a busy machine the kernel may take longer than runc waits for it.
            match &paused {
                Err(error) if tries > 0 && error.to_string().contains("unable to freeze") => {}
                _ => break paused,
            }
        };
        docker::unless_so_already(paused).map_err(TestkitError::docker("pause the container"))
    }

    pub(super) async fn resume(&self) -> Result<(), TestkitError> {
        let resumed = docker::connect().await?.unpause_container(&self.name).await;
        docker::unless_so_already(resumed).map_err(TestkitError::docker("resume the container"))
    }

    pub(super) async fn close(mut self) -> Result<(), TestkitError> {
        let Some(container) = self.container.take() else {
            return Ok(());
        };
        container.rm().await.map_err(TestkitError::docker("remove the container"))
    }

    async fn until_serving(&self) -> Result<(), TestkitError> {
        let address = self.seat.client.address();
        let fate = tokio::select! {
            served = timeout(self.start_timeout, four_letter::until_serving(&address)) => match served {
                Ok(()) => return Ok(()),
                Err(_) => format!("did not serve within {:?}", self.start_timeout),
            },
            () = self.ended() => "ended while it was starting".to_owned(),
        };
        let log = self.log_tail().await;
        if log.contains("Address already in use") {
            return Err(TestkitError::PortTaken { port: self.seat.client.number() });
        }
        Err(TestkitError::NotServing { backend: Backend::Docker, address, fate, log })
    }

    /// A container that ends at once has mostly been given a bad option. The daemon's own way to await the end is a
    /// stream, for which alone we would need another library.
    async fn ended(&self) {
        while let Ok(container) = self.container() {
            if matches!(container.is_running().await, Ok(false)) {
                return;
            }
            sleep(CHECK_INTERVAL).await;
        }
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
            .field("seat", &self.seat)
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
        docker::block_on(async move {
            let removed = match container {
                Some(container) => {
                    container.rm().await.map_err(TestkitError::docker("remove the container"))
                }
                None => docker::remove(&name).await,
            };
            if let Err(error) = removed {
                tracing::warn!(
                    "the container {name} stays until the next start sweeps it: {}",
                    error.chain()
                );
            }
        });
        signals::forget(&Leftover::Container(self.name.clone()));
    }
}

fn request(
    image: GenericImage,
    name: &str,
    options: &ServerOptions,
    seat: &Seat,
) -> ContainerRequest<GenericImage> {
    let secure = seat.secure.as_ref();
    let mut lines = security::lines(options, secure, FOLDER, ("0.0.0.0", SECURE_PORT));
    lines.extend(options.extra_lines());
    let logins = security::jvm_flag(options, FOLDER);
    let mut environment = vec![
        ("ZOO_TICK_TIME", options.tick_time.as_millis().to_string()),
        ("ZOO_MAX_CLIENT_CNXNS", "0".to_owned()),
        ("ZOO_STANDALONE_ENABLED", seat.voter.is_none().to_string()),
        ("ZOO_ADMINSERVER_ENABLED", "false".to_owned()),
        ("ZOO_4LW_COMMANDS_WHITELIST", "*".to_owned()),
        ("ZOO_CFG_EXTRA", lines.join(" ")),
        (
            "JVMFLAGS",
            logins.into_iter().chain(options.all_jvm_flags()).collect::<Vec<_>>().join(" "),
        ),
    ];
    let network: fn(&mut HostConfig, &[(u16, u16)]) = match &seat.voter {
        None => publish,
        Some(voter) => {
            environment.extend([
                ("ZOO_MY_ID", voter.id.to_string()),
                ("ZOO_SERVERS", voter.servers.join(" ")),
                ("ZOO_INIT_LIMIT", INIT_LIMIT.to_string()),
                ("ZOO_SYNC_LIMIT", SYNC_LIMIT.to_string()),
            ]);
            share_network
        }
    };
    let mut ports = vec![(CLIENT_PORT, seat.client.number())];
    ports.extend(secure.map(|seat| (SECURE_PORT, seat.port.number())));
    let image = match secure {
        Some(_) => image.with_exposed_port(SECURE_PORT.tcp()),
        None => image,
    };
    let request = image
        .with_exposed_port(CLIENT_PORT.tcp())
        .with_container_name(name)
        .with_label(OWNER_LABEL, Owner::current().to_string())
        .with_host_config_modifier(move |host| network(host, &ports));
    let request =
        security::files(options, secure).into_iter().fold(request, |request, (name, text)| {
            request.with_copy_to(format!("{FOLDER}/{name}"), text.into_bytes())
        });
    environment.into_iter().fold(request, |request, (key, value)| request.with_env_var(key, value))
}

/// Only the clients' ports, and not for the world: the default is all of the image's on all addresses.
fn publish(host: &mut HostConfig, ports: &[(u16, u16)]) {
    let binding = |(inside, outside): &(u16, u16)| {
        let (host_ip, host_port) = (Some("127.0.0.1".to_owned()), Some(outside.to_string()));
        (format!("{inside}/tcp"), Some(vec![PortBinding { host_ip, host_port }]))
    };
    host.publish_all_ports = Some(false);
    host.port_bindings = Some(ports.iter().map(binding).collect());
}

/// The members of an ensemble reach each other through our proxies, which listen on the loopback address.
fn share_network(host: &mut HostConfig, _ports: &[(u16, u16)]) {
    host.publish_all_ports = Some(false);
    host.port_bindings = None;
    host.network_mode = Some("host".to_owned());
}
