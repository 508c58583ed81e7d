//! ZooKeeper's image, for tests that use the crate `testcontainers` themselves. The backend `docker` starts it too.

use testcontainers::Image;
use testcontainers::core::{ContainerPort, WaitFor};

use super::backend::variable;

const DEFAULT: &str = "zookeeper:3.9.4";
/// ZooKeeper's standard port, inside the container.
pub(super) const CLIENT_PORT: u16 = 2181;
pub(super) const SECURE_PORT: u16 = 2281;
const PORTS: [ContainerPort; 2] =
    [ContainerPort::Tcp(CLIENT_PORT), ContainerPort::Tcp(SECURE_PORT)];
/// A standalone server logs this right after the start of its request processors.
const SERVES: &str = "Using checkIntervalMs=";

/// A standalone ZooKeeper server as an image of `testcontainers`: the image in `ZOOKEEPER_IMAGE`, by default the
/// official one. When its start returns, it serves clients at port 2181.
///
/// Use [`TestServer`](super::TestServer) for a server that your test stops, pauses or restarts, or that may be a local
/// process.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use testcontainers::runners::AsyncRunner;
/// use zookeeper_testkit::ZooKeeper;
///
/// let container = ZooKeeper::default().start().await?;
/// let port = container.get_host_port_ipv4(2181).await?;
/// let client = zookeeper_client::Client::connect(&format!("127.0.0.1:{port}")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ZooKeeper {
    name: String,
    tag: String,
    pub(super) has_tls: bool,
}

impl Default for ZooKeeper {
    fn default() -> Self {
        let full = variable("ZOOKEEPER_IMAGE").unwrap_or_else(|| DEFAULT.to_owned());
        // The colon of a registry's port comes before a slash.
        let tagged = full.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        let (name, tag) = tagged.unwrap_or((&full, "latest"));
        Self { name: name.to_owned(), tag: tag.to_owned(), has_tls: false }
    }
}

impl Image for ZooKeeper {
    fn name(&self) -> &str {
        &self.name
    }

    fn tag(&self) -> &str {
        &self.tag
    }

    fn ready_conditions(&self) -> Vec<WaitFor> {
        vec![WaitFor::message_on_stdout(SERVES)]
    }

    fn expose_ports(&self) -> &[ContainerPort] {
        &PORTS[..=usize::from(self.has_tls)]
    }
}
