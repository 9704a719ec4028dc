/// What every method here needs of a connection: cheap to clone, shared by many tasks.
pub trait Connection: redis::aio::ConnectionLike + Clone + Send + Sync + 'static {}
impl<C: redis::aio::ConnectionLike + Clone + Send + Sync + 'static> Connection for C {}
