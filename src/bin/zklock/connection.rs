use crate::exit::Failure;
use zookeeper_recipes::Curator;
pub(crate) async fn connect(s: &crate::settings::Settings) -> Result<Curator, Failure> {
    Ok(Curator::builder().session_timeout(s.t).connect(&s.server).await?)
}
