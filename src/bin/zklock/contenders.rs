use crate::exit::Failure;
use zookeeper_recipes::{Curator, InterProcessMutex, Participant};
pub(crate) struct Contender {
    pub participant: Participant,
}
pub(crate) async fn contenders(c: &Curator, path: &str) -> Result<Vec<Contender>, Failure> {
    Ok(InterProcessMutex::new(c, path)?
        .participants()
        .await?
        .into_iter()
        .map(|participant| Contender { participant })
        .collect())
}
pub(crate) fn held_by(c: &[Contender]) -> String {
    format!("held by {}", c[0].participant.id())
}
