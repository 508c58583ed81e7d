//! ACLs, one by one. Pure.

use std::sync::Arc;

use super::op::{Acls, Ids};
use crate::client::{Acl, AuthId, Permission, ServerError};

/// With the creator's ids in place of `auth`.
pub(super) fn resolved(acls: &Acls, ids: &Ids) -> Result<Acls, ServerError> {
    let mut resolved = Vec::new();
    for (permissions, scheme, id) in acls.iter() {
        match scheme.as_str() {
            "auth" => {
                let own = ids.iter().map(|(scheme, id)| (*permissions, scheme.clone(), id.clone()));
                let before = resolved.len();
                resolved.extend(own);
                if resolved.len() == before {
                    return Err(ServerError::InvalidAcl);
                }
            }
            "world" if id != "anyone" => return Err(ServerError::InvalidAcl),
            "digest" if id.split(':').count() != 2 => return Err(ServerError::InvalidAcl),
            "world" | "digest" | "ip" => resolved.push((*permissions, scheme.clone(), id.clone())),
            _ => return Err(ServerError::InvalidAcl),
        }
    }
    Ok(Arc::new(resolved))
}

pub(super) fn anyone() -> Acls {
    Arc::new(vec![(Permission::ALL, "world".to_owned(), "anyone".to_owned())])
}

pub(crate) fn plain(acls: &[Acl]) -> Acls {
    let plain = |acl: &Acl| (acl.permission(), acl.scheme().to_owned(), acl.id().to_owned());
    Arc::new(acls.iter().map(plain).collect())
}

pub(crate) fn of_plain(acls: &Acls) -> Vec<Acl> {
    let acl = |(permission, scheme, id): &(Permission, String, String)| {
        Acl::new(*permission, AuthId::new(scheme, id))
    };
    acls.iter().map(acl).collect()
}
