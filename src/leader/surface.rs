//! What can be asked of whoever takes part: written once, for each type.

/// For a type with a field `candidate`.
macro_rules! candidate_surface {
    ($Type:ident) => {
        impl $Type {
            /// The path, under the namespace.
            pub fn path(&self) -> &str {
                self.candidate.recipe.path.as_str()
            }

            /// What its nodes say of who it is, as text.
            pub fn id(&self) -> std::borrow::Cow<'_, str> {
                self.candidate.id()
            }

            /// Follows who leads, in whatever process.
            pub fn observe(&self) -> $crate::leader::LeaderObserver {
                $crate::leader::LeaderObserver::new(self.candidate.clone())
            }

            /// All candidates, the leader first, as the server that we are connected to tells it: of an ensemble it
            /// may be one that has not yet heard of the latest. Nodes that vanish meanwhile are left out.
            ///
            /// # Cancel safety
            ///
            /// It only reads.
            ///
            /// # Errors
            ///
            /// Those of [`AcquireError`](crate::AcquireError) that apply to reading.
            ///
            /// # Panics
            ///
            /// Outside a tokio runtime with timers.
            pub async fn participants(
                &self,
            ) -> Result<Vec<$crate::participants::Participant>, $crate::error::AcquireError> {
                self.candidate.participants().await
            }

            /// Who leads, as [`participants`](Self::participants) tells it.
            ///
            /// # Cancel safety
            ///
            /// It only reads.
            ///
            /// # Errors
            ///
            /// As for [`participants`](Self::participants).
            ///
            /// # Panics
            ///
            /// As for [`participants`](Self::participants).
            pub async fn leader(
                &self,
            ) -> Result<Option<$crate::participants::Participant>, $crate::error::AcquireError>
            {
                self.candidate.leader().await
            }
        }
    };
}

pub(super) use candidate_surface;
