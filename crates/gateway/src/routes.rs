//! What one worker knows about the endpoints: each with the lane its callbacks take on this worker's runtime.

use std::{collections::HashMap, sync::Arc};

use crate::{
    endpoints::{Endpoint, Endpoints},
    lane::Lane,
    refusal::Refusal,
};

pub(crate) struct Route {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) lane: Lane,
}

pub(crate) struct Routes {
    endpoints: Arc<Endpoints>,
    live: HashMap<Arc<str>, Arc<Route>>,
}

impl Routes {
    /// `lane` gives the lane of a corp.
    pub(crate) fn new(endpoints: Arc<Endpoints>, mut lane: impl FnMut(&Arc<str>) -> Lane) -> Self {
        let route = |endpoint: &Arc<Endpoint>| {
            let route = Route {
                endpoint: Arc::clone(endpoint),
                lane: lane(&endpoint.corp_id),
            };
            (Arc::clone(&endpoint.id), Arc::new(route))
        };
        let live = endpoints.live.values().map(route).collect();
        Self { endpoints, live }
    }

    /// The route, or why there is none and the name for the log. An unknown name is the sender's text: it gets into no
    /// label and no line.
    pub(crate) fn find(&self, id: &str) -> Result<Arc<Route>, (Refusal, Arc<str>)> {
        match self.live.get(id) {
            Some(route) => Ok(Arc::clone(route)),
            None if self.endpoints.off.contains_key(id) => Err((Refusal::EndpointOff, id.into())),
            None => Err((Refusal::UnknownEndpoint, "".into())),
        }
    }
}
