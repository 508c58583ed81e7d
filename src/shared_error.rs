//! [`SharedError`]: an error of somebody else's, within one that can be cloned.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An error of a lock that is not one of this crate's, shared so that the error around it can be cloned.
///
/// It is the `source` there, as itself: `downcast_ref` gives it back.
///
/// ```
/// use std::error::Error;
/// use std::io;
/// use zookeeper_recipes::AcquireError;
///
/// let error = AcquireError::other("/locks/orders", io::Error::from(io::ErrorKind::HostUnreachable));
/// assert_eq!(error.to_string(), "cannot acquire /locks/orders");
/// let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
/// assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::HostUnreachable));
/// ```
#[derive(Clone)]
pub struct SharedError(Arc<dyn Error + Send + Sync + 'static>);

impl SharedError {
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync + 'static>>) -> Self {
        Self(Arc::from(error.into()))
    }
}

impl Deref for SharedError {
    type Target = dyn Error + Send + Sync + 'static;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// Clones are equal; others are not, whatever they say.
impl PartialEq for SharedError {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl Eq for SharedError {}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
