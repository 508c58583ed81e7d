//! The largest size of a request.

use zookeeper_client::Acl;

use crate::error::Error;
use crate::lock_path::LockPath;

/// The largest frame that a server takes unless it is configured otherwise (`jute.maxbuffer`). The server cuts the connection of
/// a client that sends a larger one, each time that it is sent.
const LARGEST_FRAME: usize = 0xf_ffff;

/// The size of a create with `bytes` of data, names and headers included: at most some hundred bytes too many.
fn create_size(path: &LockPath, bytes: usize, acls: &[Acl]) -> usize {
    const HEADERS: usize = 256;
    const LONGEST_NAME: usize = 64;
    let acls: usize = acls.iter().map(|acl| 12 + acl.scheme().len() + acl.id().len()).sum();
    HEADERS + path.as_str().len() + LONGEST_NAME + bytes + acls
}

/// Fails if a create with `bytes` of data would be too large. The server would not answer it with an error.
///
/// The error names `option`, which the user set to the data.
pub(crate) fn check_frame(
    option: &'static str,
    path: &LockPath,
    bytes: usize,
    acls: &[Acl],
) -> Result<(), Error> {
    if create_size(path, bytes, acls) <= LARGEST_FRAME {
        return Ok(());
    }
    let reason =
        "a request may take 1 MiB in all, and the server cuts the connection at a larger one";
    if path.as_str().len() > bytes {
        let start: String = path.as_str().chars().take(40).collect();
        let value = format!("of {} bytes, {start}…", path.as_str().len());
        return Err(Error::invalid("path", value, reason));
    }
    Err(Error::invalid(option, format_args!("of {bytes} bytes for {path}"), reason))
}

/// Fails if contenders' nodes at `path` cannot have this identity and these ACLs.
pub(crate) fn check_contender(path: &LockPath, identity: &[u8], acls: &[Acl]) -> Result<(), Error> {
    if acls.is_empty() {
        let value = format!("[] for {path}");
        return Err(Error::invalid("acls", value, "a node needs at least one"));
    }
    check_frame("identity", path, identity.len(), acls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_create_over_the_frame_limit_is_refused() {
        let path = LockPath::parse("lock path", "/locks/orders").unwrap();
        let acls = zookeeper_client::Acls::anyone_all().to_vec();
        assert!(check_frame("identity", &path, LARGEST_FRAME - 1024, &acls).is_ok());
        let error = check_frame("identity", &path, 1 << 20, &acls).unwrap_err().to_string();
        assert!(error.contains("identity") && error.contains("/locks/orders"), "{error}");
    }

    #[test]
    fn a_long_path_is_named_and_not_the_data_and_not_repeated() {
        let path = LockPath::parse("lock path", &format!("/{}", "x".repeat(1_100_000))).unwrap();
        let acls = zookeeper_client::Acls::anyone_all().to_vec();
        let error = check_frame("identity", &path, 5, &acls).unwrap_err().to_string();
        assert!(error.contains("path of 1100001 bytes") && error.len() < 300, "{error}");
    }
}
