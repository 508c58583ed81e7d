//! A server in a Docker container.
//!
//! The server's data is in the image's own volumes, which outlive a stop and a kill and are removed with the
//! container. A mounted folder of ours would have to belong to the image's user.

use std::fmt;
use std::mem::ManuallyDrop;
use std::time::Duration;

use testcontainers::bollard::models::PortBinding;
use testcontainers::bollard::query_parameters::KillContainerOptionsBuilder;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, ImageExt};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::docker::{self, Name, OWNER_LABEL};
use super::image::{CLIENT_PORT, SECURE_PORT, ZooKeeper};
use super::options::{INIT_LIMIT, SYNC_LIMIT, ServerOptions};
use super::owner::Owner;
use super::seat::Seat;
use super::{Backend, TestkitError, security};

/// Attempts to pause before the failure is reported.
const PAUSES: usize = 5;
/// The folder of our files inside the container.
const FOLDER: &str = "/testkit";
/// Seconds from the request to stop until the kill.
const GRACE_SECONDS: i32 = 10;
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
const START: &str = "start a container";

pub(super) struct Container {
    /// Removed by `name`, because its own destructor panics outside a runtime.
    container: ManuallyDrop<ContainerAsync<ZooKeeper>>,
    name: Name,
    seat: Seat,
    start_timeout: Duration,
}

impl Container {
    pub(super) async fn launch(options: &ServerOptions, seat: Seat) -> Result<Self, TestkitError> {
        let daemon = docker::connect().await?;
        docker::sweep(&daemon).await;
        let image = docker::image(&daemon).await?;
        let mut name = Name::new();
        tracing::info!(
            "starting the ZooKeeper container {} at {}",
            name.text,
            seat.client.address()
        );
        let request = request(image, &name.text, options, &seat);
        let (sender, receiver) = oneshot::channel();
        // A start that has begun is not abandoned: the daemon may create the container for an abandoned request after
        // we looked for one to remove. If the caller cancels the start, `name` waits until it is done.
        name.creation = docker::spawn(async move {
            let _ = sender.send(request.start().await.map(ManuallyDrop::new)); // cancelled
        });
        match receiver.await.map_err(TestkitError::cannot(START))? {
            Ok(container) => {
                Ok(Self { container, name, seat, start_timeout: options.start_timeout })
            }
            Err(error) if docker::is_port_taken(&error) => {
                Err(TestkitError::PortTaken { port: seat.client.number() })
            }
            Err(error) => Err(TestkitError::cannot(START)(error)),
        }
    }

    pub(super) async fn start_again(&self) -> Result<(), TestkitError> {
        self.launch_again().await?;
        let Err(fate) = self.seat.until_serving(self.start_timeout, self.ended()).await else {
            return Ok(());
        };
        let mut log = self.container.stdout_to_vec().await.unwrap_or_default();
        log.extend(self.container.stderr_to_vec().await.unwrap_or_default());
        Err(self.seat.not_serving(Backend::Docker, fate, &log))
    }

    pub(super) async fn launch_again(&self) -> Result<(), TestkitError> {
        let running = self.container.is_running().await;
        if running.map_err(TestkitError::cannot("inspect the container"))? {
            // The container may be paused.
            return self.resume().await;
        }
        tracing::info!("starting the ZooKeeper container {} again", self.name.text);
        self.container.start().await.map_err(TestkitError::cannot("start the container again"))
    }

    pub(super) async fn stop(&self) -> Result<(), TestkitError> {
        let stopped = self.container.stop_with_timeout(Some(GRACE_SECONDS)).await;
        stopped.map_err(TestkitError::cannot("stop the container"))
    }

    pub(super) async fn kill(&self) -> Result<(), TestkitError> {
        let options = KillContainerOptionsBuilder::new().signal("KILL").build();
        let daemon = docker::connect().await?;
        let killed = daemon.kill_container(self.container.id(), Some(options)).await;
        docker::unless_so_already(killed).map_err(TestkitError::cannot("kill the container"))
    }

    pub(super) async fn pause(&self) -> Result<(), TestkitError> {
        let mut paused = self.container.pause().await;
        for _ in 1..PAUSES {
            // On a busy machine, freezing may take the kernel longer than runc waits for it.
            match &paused {
                Err(error) if error.to_string().contains("unable to freeze") => {}
                _ => break,
            }
            paused = self.container.pause().await;
        }
        docker::unless_so_already(paused).map_err(TestkitError::cannot("pause the container"))
    }

    pub(super) async fn resume(&self) -> Result<(), TestkitError> {
        let resumed = self.container.unpause().await;
        docker::unless_so_already(resumed).map_err(TestkitError::cannot("resume the container"))
    }

    pub(super) async fn close(self) -> Result<(), TestkitError> {
        docker::remove(self.container.id()).await
    }

    /// Returns when the container has ended; one that ends at once usually got an invalid option. This polls, because
    /// the daemon's own way to wait for the end is a stream, for which we would need another library.
    async fn ended(&self) {
        while !matches!(self.container.is_running().await, Ok(false)) {
            sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Omits the container's files, which contain passwords.
impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Container").field(&self.name.text).finish()
    }
}

fn request(
    mut image: ZooKeeper,
    name: &str,
    options: &ServerOptions,
    seat: &Seat,
) -> ContainerRequest<ZooKeeper> {
    let secure = seat.secure.as_ref();
    image.has_tls = secure.is_some();
    let mut lines = security::lines(options, secure, FOLDER, "0.0.0.0", SECURE_PORT);
    lines.extend(options.extra_lines());
    let logins = security::jvm_flag(options, FOLDER);
    let flags: Vec<_> = logins.into_iter().chain(options.all_jvm_flags()).collect();
    let mut environment = vec![
        ("ZOO_TICK_TIME", options.tick_time.as_millis().to_string()),
        ("ZOO_MAX_CLIENT_CNXNS", "0".to_owned()),
        ("ZOO_STANDALONE_ENABLED", seat.voter.is_none().to_string()),
        ("ZOO_ADMINSERVER_ENABLED", "false".to_owned()),
        ("ZOO_4LW_COMMANDS_WHITELIST", "*".to_owned()),
        ("ZOO_CFG_EXTRA", lines.join(" ")),
        ("JVMFLAGS", flags.join(" ")),
    ];
    if let Some(voter) = &seat.voter {
        environment.extend([
            ("ZOO_MY_ID", voter.id.to_string()),
            ("ZOO_SERVERS", voter.servers.join(" ")),
            ("ZOO_INIT_LIMIT", INIT_LIMIT.to_string()),
            ("ZOO_SYNC_LIMIT", SYNC_LIMIT.to_string()),
        ]);
    }
    // Members of an ensemble reach each other through our proxies, which listen on the loopback address.
    let shares_network = seat.voter.is_some();
    let mut ports = vec![(CLIENT_PORT, seat.client.number())];
    ports.extend(secure.map(|seat| (SECURE_PORT, seat.port.number())));
    let request = image
        .with_ready_conditions(Vec::new())
        .with_container_name(name)
        .with_label(OWNER_LABEL, Owner::current().to_string())
        .with_host_config_modifier(move |host| {
            host.publish_all_ports = Some(false);
            if shares_network {
                host.network_mode = Some("host".to_owned());
            }
            host.port_bindings = (!shares_network).then(|| ports.iter().map(binding).collect());
        });
    let files = security::files(options, secure).into_iter();
    let request = files.fold(request, |request, (name, text)| {
        request.with_copy_to(format!("{FOLDER}/{name}"), text.into_bytes())
    });
    environment.into_iter().fold(request, |request, (key, value)| request.with_env_var(key, value))
}

/// Publishes one client port on 127.0.0.1. The default is to publish all ports of the image on all addresses.
fn binding((inside, outside): &(u16, u16)) -> (String, Option<Vec<PortBinding>>) {
    let published =
        PortBinding { host_ip: Some("127.0.0.1".to_owned()), host_port: Some(outside.to_string()) };
    (format!("{inside}/tcp"), Some(vec![published]))
}
