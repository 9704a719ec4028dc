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
    live: HashMap<Arc<str>, Route>,
}

impl Routes {
    /// `lane` gives the lane of a corp.
    pub(crate) fn new(endpoints: Arc<Endpoints>, mut lane: impl FnMut(&Arc<str>) -> Lane) -> Self {
        let route = |endpoint: &Arc<Endpoint>| {
            let lane = lane(&endpoint.corp_id);
            (
                Arc::clone(&endpoint.id),
                Route {
                    endpoint: Arc::clone(endpoint),
                    lane,
                },
            )
        };
        let live = endpoints.live.values().map(route).collect();
        Self { endpoints, live }
    }

    pub(crate) fn find(&self, id: &str) -> Result<&Route, Refusal> {
        match self.live.get(id) {
            Some(route) => Ok(route),
            None if self.endpoints.off.contains_key(id) => Err(Refusal::EndpointOff),
            None => Err(Refusal::UnknownEndpoint),
        }
    }

    /// The name of a switched-off endpoint as the configuration spells it.
    pub(crate) fn known_id(&self, id: &str) -> &str {
        self.endpoints
            .off
            .get_key_value(id)
            .map_or("", |(id, _)| id)
    }
}
