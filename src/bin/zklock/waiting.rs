pub(crate) async fn show(
    _: &zookeeper_recipes::Curator,
    _: &[String],
    _: bool,
) -> std::convert::Infallible {
    std::future::pending().await
}
