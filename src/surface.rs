//! What all guards, and all locks of one contender, can do: written once, for each type.

/// What is asked of a hold, for a type with a method `view` that gives its `HoldView`; `$what` is what is held.
macro_rules! hold_surface {
    ($Guard:ident, $what:literal) => {
        impl $Guard {
            #[doc = concat!("Whether the ", $what, " is held at this instant.")]
            ///
            /// It looks at the clock, so that a process that was stopped gets the truth at its first look. Once it says
            /// `false` it always will.
            pub fn is_held(&self) -> bool {
                self.loss().is_none()
            }

            #[doc = concat!("How the ", $what, " was lost, if it was.")]
            pub fn loss(&self) -> Option<$crate::error::Loss> {
                self.view().loss()
            }

            #[doc = concat!("Resolves when the ", $what, " is lost, with how; once and for good.")]
            ///
            /// After a release it resolves with [`Loss::Released`](crate::Loss::Released).
            ///
            /// # Cancel safety
            ///
            /// It can be dropped and made again at any time.
            pub fn lost(&self) -> impl Future<Output = $crate::error::Loss> + Send + use<> {
                self.view().lost()
            }

            /// How long the session's lease lasts from now on if no server answers any more. For so long the servers
            #[doc = concat!("cannot expire the session and give the ", $what, " to somebody else; it is renewed some")]
            /// seven times in a session timeout while the servers answer. Nothing once it is lost.
            ///
            /// For what has to be over by then and cannot ask again: another process, a request with a deadline.
            pub fn lease_left(&self) -> std::time::Duration {
                self.view().lease_left()
            }

            /// Resolves when the lease is renewed after this was called: [`lease_left`](Self::lease_left) has more.
            ///
            /// # Cancel safety
            ///
            /// It can be dropped and made again at any time. To miss nothing, make it before
            /// [`lease_left`](Self::lease_left) is asked.
            ///
            /// # Errors
            ///
            #[doc = concat!("How the ", $what, " was lost, or given back.")]
            pub fn lease_renewed(
                &self,
            ) -> impl Future<Output = Result<(), $crate::error::Loss>> + Send + use<> {
                self.view().lease_renewed()
            }

            #[doc = concat!("A number that grows from one holder of this ", $what, " to the next.")]
            pub fn fencing_token(&self) -> $crate::fencing::FencingToken {
                self.view().state().fencing_token()
            }

            /// Writes that ZooKeeper refuses once the hold is over.
            pub fn fenced(&self) -> $crate::fenced::Fenced {
                self.view().fenced()
            }

            #[doc = concat!("The path of the ", $what, ", under the namespace.")]
            pub fn path(&self) -> &str {
                self.view().path()
            }

            /// The path of the contender's node, under the namespace.
            pub fn node(&self) -> &str {
                self.view().state().node()
            }

            #[doc = concat!("Resolves when somebody asks that the ", $what, " be given back, by")]
            /// [`Revoker`](crate::Revoker) or Curator's class of that name; also if that was before this is called. With
            /// how the hold ended, if it does before. It is a request: to comply, give it back.
            ///
            /// The first call begins to watch the node; a request is seen at once, or within a second where the
            /// session has no room for another watch.
            ///
            /// # Cancel safety
            ///
            /// It can be dropped and made again at any time.
            ///
            /// # Errors
            ///
            /// How the hold ended.
            pub fn revocation_requested(
                &self,
            ) -> impl Future<Output = Result<(), $crate::error::Loss>> + Send + use<> {
                self.view().revocation_requested()
            }
        }

        impl std::fmt::Debug for $Guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($Guard))
                    .field("node", &self.node())
                    .field("fencing_token", &self.fencing_token())
                    .field("loss", &self.loss())
                    .finish_non_exhaustive()
            }
        }
    };
}

/// The methods of a guard with a field `held: Arc<Held>`.
macro_rules! guard_surface {
    ($Guard:ident) => {
        $crate::surface::hold_surface!($Guard, "lock");

        impl $Guard {
            fn view(&self) -> &$crate::guard::HoldView {
                self.held.view()
            }

            /// A token that is cancelled when the lock is lost, and when it is released. Cancelling it has no
            /// effect on the lock.
            pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
                self.view().state().ended().child_token()
            }

            /// Releases the lock and waits until the servers confirm it, at most for
            /// [`CuratorBuilder::connection_timeout`](crate::CuratorBuilder::connection_timeout).
            ///
            /// # Cancel safety
            ///
            /// Dropping the future, also before it is polled, releases all the same; only the report is lost.
            ///
            /// # Errors
            ///
            /// * [`ReleaseError::Lost`](crate::ReleaseError::Lost): the hold had ended before; what was done under it
            ///   may not have been done alone.
            /// * [`ReleaseError::Unconfirmed`](crate::ReleaseError::Unconfirmed): no server answered in time; the session
            ///   goes on deleting.
            /// * [`ReleaseError::NoAuth`](crate::ReleaseError::NoAuth): the server does not let us delete the node.
            pub async fn release(
                self,
            ) -> Result<$crate::guard::Released, $crate::error::ReleaseError> {
                $crate::guard::Held::release(self.held).await
            }
        }
    };
}

/// The options of a recipe with the method `recipe_mut`; `$with_identity` is what it calls that one, and `$retry` says
/// what its default policy is.
macro_rules! option_surface {
    ($Lock:ident) => {
        $crate::surface::option_surface!($Lock, with_identity, "the curator's policy");
    };
    ($Lock:ident, $with_identity:ident, $retry:literal) => {
        impl $Lock {
            /// What a contender's node says of who contends. Defaults to the curator's identity.
            ///
            /// # Errors
            ///
            /// [`ConfigError::InvalidOption`](crate::ConfigError::InvalidOption) if it is larger than a server takes.
            pub fn $with_identity(
                self,
                identity: impl AsRef<[u8]>,
            ) -> Result<Self, $crate::error::ConfigError> {
                self.map_recipe(|recipe| recipe.with_identity(identity.as_ref()))
            }

            /// The ACLs of a contender's node and of parents that it makes. Defaults to the curator's.
            ///
            /// # Errors
            ///
            /// [`ConfigError::InvalidOption`](crate::ConfigError::InvalidOption) if there are none, or more than a server
            /// takes.
            pub fn with_acls(
                self,
                acls: $crate::client::Acls<'_>,
            ) -> Result<Self, $crate::error::ConfigError> {
                self.map_recipe(|recipe| recipe.with_acls(acls))
            }

            #[doc = concat!("When to try again. Defaults to ", $retry, ".")]
            #[must_use]
            pub fn with_retry(mut self, retry: $crate::retry::RetryPolicy) -> Self {
                self.recipe_mut().retry = retry;
                self
            }

            /// When a hold counts as lost. Defaults to the curator's policy.
            #[must_use]
            pub fn with_loss_policy(mut self, policy: $crate::session::lease::LossPolicy) -> Self {
                self.recipe_mut().loss_policy = policy;
                self
            }

            fn map_recipe(
                mut self,
                change: impl FnOnce(
                    $crate::recipe::Recipe,
                )
                    -> Result<$crate::recipe::Recipe, $crate::error::ConfigError>,
            ) -> Result<Self, $crate::error::ConfigError> {
                *self.recipe_mut() = change(self.recipe_mut().clone())?;
                Ok(self)
            }
        }
    };
}

/// How a lock with the methods `path` and `acquire_with` is acquired.
macro_rules! lock_surface {
    ($Lock:ident, $Guard:ident) => {
        impl $Lock {
            /// Waits until the lock is held.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future, at any point, gives the place in the queue up; its node is removed by the
            /// session, and the next waiter is served.
            ///
            /// # Errors
            ///
            /// Every [`AcquireError`](crate::AcquireError) but
            /// [`AcquireError::TimedOut`](crate::AcquireError::TimedOut).
            pub async fn acquire(&self) -> Result<$Guard, $crate::error::AcquireError> {
                loop {
                    // Without a bound on its patience it never comes back without a guard or an error.
                    let forever = $crate::recipe::Patience::Forever;
                    if let Some(guard) = self.acquire_with(forever).await? {
                        return Ok(guard);
                    }
                }
            }

            /// Waits until the lock is held, at most for `limit`; `None` when the time is up and somebody else
            /// has it. The limit covers everything: a server that does not answer, retries, a lost session. A limit of
            /// zero is [`try_acquire`](Self::try_acquire), which waits for the servers' answers.
            ///
            /// # Cancel safety
            ///
            /// As for [`acquire`](Self::acquire).
            ///
            /// # Errors
            ///
            /// [`AcquireError::TimedOut`](crate::AcquireError::TimedOut) when the time is up before any server said
            /// whether somebody has it; and all of [`acquire`](Self::acquire).
            ///
            /// # Panics
            ///
            /// Outside a tokio runtime with timers.
            pub async fn acquire_timeout(
                &self,
                limit: std::time::Duration,
            ) -> Result<Option<$Guard>, $crate::error::AcquireError> {
                self.acquire_with($crate::recipe::Patience::within(limit)).await
            }

            /// Takes the lock if it is free; `None` if it is busy. It waits for the servers' answers, never for
            /// another caller. Where leases are counted, it is also `None` while another caller is about to take one.
            ///
            /// # Cancel safety
            ///
            /// As for [`acquire`](Self::acquire).
            ///
            /// # Errors
            ///
            /// As for [`acquire`](Self::acquire).
            ///
            /// # Panics
            ///
            /// Outside a tokio runtime with timers.
            pub async fn try_acquire(&self) -> Result<Option<$Guard>, $crate::error::AcquireError> {
                self.acquire_with($crate::recipe::Patience::OnlyIfFree).await
            }

            /// Runs `body` while the lock is held: acquires, runs, releases. The body is dropped at its next
            /// `await` when the lock is lost.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future drops the body and releases.
            ///
            /// # Errors
            ///
            /// [`WithError::Acquire`](crate::WithError::Acquire) if the body did not run;
            /// [`WithError::Lost`](crate::WithError::Lost) if it did, and not under the lock to its end. A release that
            /// nobody confirms in time is not an error here.
            #[allow(clippy::future_not_send)] // it is, if the body is
            pub async fn with<T, F>(&self, body: F) -> Result<T, $crate::error::WithError>
            where
                F: AsyncFnOnce(&$Guard) -> T,
            {
                let guard = self.acquire().await?;
                let value = tokio::select! {
                    biased;
                    _ = guard.lost() => None,
                    value = body(&guard) => Some(value),
                };
                $crate::guard::Held::with_done(guard.held, value).await
            }
        }
    };
}

pub(crate) use {guard_surface, hold_surface, lock_surface, option_surface};
