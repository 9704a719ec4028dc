//! The description of the API, made from the code: `/openapi.json`, and `/docs`, a page that needs nothing from outside.

use std::{collections::BTreeMap, sync::Arc};

use allocation::{
    CalendarId, CampaignId, ChannelId, ChatId, GroupPoolId, MemberId, PoolId, ScheduleId,
};
use axum::{
    Json, Router,
    http::{HeaderValue, header},
    middleware::map_response,
    response::Response,
    routing::get,
};
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{
        ComponentsBuilder, Content, InfoBuilder, LicenseBuilder, ObjectBuilder, OpenApi,
        OpenApiBuilder, Ref, RefOr, Required, Response as Described, ResponseBuilder,
        path::{HttpMethod, Operation, Parameter, ParameterBuilder, ParameterIn, PathItem},
        schema::Type,
        security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
        tag::TagBuilder,
    },
};

use super::{described, ids::Id, problem::Details};

const ABOUT: &str = "Who gets which customer, and everything around it. All routes are about one corp. \
Keys go into `Authorization: Bearer …`; each has a role (member < viewer < operator < admin). \
Errors are `application/problem+json` with a stable `code`. Lists are `data` and `page`; a cursor leads to the page it names. \
Times are RFC 3339 in UTC. Unknown fields and parameters are refused. \
Every POST takes an `Idempotency-Key`: the same request with the same key has its effect once.";

const TAGS: [(&str, &str); 23] = [
    ("allocations", "Who got whom."),
    (
        "offers",
        "Members who are asked before they are given a customer.",
    ),
    ("presence", "Who is there now."),
    ("pools", "Members that share incoming customers."),
    (
        "policies",
        "What pools were and could be: versions, drafts, and trying one before it is live.",
    ),
    ("members", "People who can be given customers."),
    ("schedules", "When people work."),
    (
        "calendars",
        "Days that are special for a whole corp, such as holidays.",
    ),
    (
        "channels",
        "Posters, pages, ads: a State that leads to a pool.",
    ),
    (
        "visits",
        "Whom a visitor sees, before he is a customer; also for own landing pages.",
    ),
    (
        "groups",
        "Customer groups, and the pools that they are filled in.",
    ),
    ("campaigns", "What brings people into customer groups."),
    (
        "seats",
        "Seats in customer groups: who is shown which group.",
    ),
    (
        "transfers",
        "Customers on their way from one member to another at WeCom.",
    ),
    ("deliveries", "What WeCom sent, as it came."),
    ("endpoints", "What comes in at which callback address."),
    ("dead letters", "What was given up, until a person decides."),
    ("quotas", "What WeCom still lets us call."),
    ("customers", "Deleting what is known about a person."),
    (
        "reports",
        "Fairness you can read: why somebody was chosen, and who got how much of what was his.",
    ),
    ("operations", "Long work."),
    ("audit", "Who changed what."),
    ("docs", "This description."),
];

/// What every route may answer when it does not do what was asked.
pub(super) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let all = [
            ("400", "The request cannot be read."),
            ("401", "No valid key."),
            ("403", "The key's role or corp does not allow it."),
            ("404", "There is no such thing."),
            (
                "409",
                "It collides with the present state; `current` says with what.",
            ),
            ("413", "The body is too large."),
            (
                "422",
                "Fields or parameters are wrong; `errors` names each.",
            ),
            (
                "503",
                "A store is away or the corp is being rebuilt; `Retry-After` says when to come again.",
            ),
        ];
        all.into_iter()
            .map(|(status, text)| (status.to_owned(), problem(text).into()))
            .collect()
    }
}

fn problem(text: &str) -> Described {
    let content = Content::new(Some(Ref::from_schema_name(Details::name())));
    ResponseBuilder::new()
        .description(text)
        .content("application/problem+json", content)
        .build()
}

/// Everything but the routes.
pub(super) fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Paidan (派单)")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(
            LicenseBuilder::new()
                .name("Apache-2.0")
                .identifier(Some("Apache-2.0"))
                .build(),
        ))
        .build();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let mut schemas = Vec::new();
    Details::schemas(&mut schemas);
    schemas.push((
        Details::name().into_owned(),
        <Details as utoipa::PartialSchema>::schema(),
    ));
    let components = schemas
        .into_iter()
        .fold(ComponentsBuilder::new(), |components, (name, schema)| {
            components.schema(name, schema)
        })
        .security_scheme("key", scheme);
    let tags =
        TAGS.map(|(name, text)| TagBuilder::new().name(name).description(Some(text)).build());
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components.build()))
        .tags(Some(tags))
        .security(Some([SecurityRequirement::new(
            "key",
            Vec::<String>::new(),
        )]))
        .build()
}

/// The whole description.
pub fn openapi(app: Arc<crate::app::App>) -> OpenApi {
    let api = super::Api {
        app,
        keys: super::access::Keys::default(),
    };
    complete(described(&api).into_openapi())
}

/// What is the same everywhere is said once, here.
fn complete(mut openapi: OpenApi) -> OpenApi {
    for (path, item) in &mut openapi.paths.paths {
        if path.contains("{corp_id}") {
            item.parameters
                .get_or_insert_default()
                .push(RefOr::T(parameter(
                    ParameterIn::Path,
                    "corp_id",
                    "WeCom's corp id.",
                )));
        }
        for (method, operation) in operations(item) {
            let parameters = operation.parameters.get_or_insert_default();
            for parameter in parameters.iter_mut() {
                if let RefOr::T(parameter) = parameter {
                    tell_rule(parameter);
                }
            }
            if method == HttpMethod::Post {
                let text = "Chosen by the caller, new for each request; the same request with the same key has its effect once and the same answer for 24 h.";
                parameters.push(RefOr::T(parameter(
                    ParameterIn::Header,
                    "Idempotency-Key",
                    text,
                )));
            }
            if method != HttpMethod::Get {
                let text =
                    "Why it is changed, for the audit; percent-encoded where it is not ASCII.";
                parameters.push(RefOr::T(parameter(ParameterIn::Header, "X-Reason", text)));
            }
        }
    }
    openapi
}

/// An id in the path is held to a rule, whichever route it is of.
fn tell_rule(parameter: &mut Parameter) {
    let rule = match parameter.name.as_str() {
        "userid" => MemberId::RULE,
        "pool_id" => PoolId::RULE,
        "channel_id" => ChannelId::RULE,
        "schedule_id" => ScheduleId::RULE,
        "calendar_id" => CalendarId::RULE,
        "group_pool_id" => GroupPoolId::RULE,
        "chat_id" => ChatId::RULE,
        "campaign_id" => CampaignId::RULE,
        _ => return,
    };
    parameter.description = Some(format!("Must be {rule}."));
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (HttpMethod, &mut Operation)> {
    let PathItem {
        get,
        put,
        post,
        delete,
        ..
    } = item;
    [
        (HttpMethod::Get, get),
        (HttpMethod::Put, put),
        (HttpMethod::Post, post),
        (HttpMethod::Delete, delete),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn parameter(place: ParameterIn, name: &str, text: &str) -> Parameter {
    let required = if place == ParameterIn::Path {
        Required::True
    } else {
        Required::False
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(text))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

/// `/openapi.json` and `/docs`.
pub(super) fn routes(description: OpenApi) -> Router {
    let description = Arc::new(complete(description));
    let json = get(async move || Json(description.as_ref().clone()));
    // The validator would be asked over the network, from the reader's browser.
    let config = utoipa_swagger_ui::Config::from("/openapi.json").validator_url("none");
    let page: Router = utoipa_swagger_ui::SwaggerUi::new("/docs")
        .config(config)
        .into();
    let page = page.layer(map_response(async |mut response: Response| {
        let policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:";
        response.headers_mut().insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(policy),
        );
        response
    }));
    Router::new().route("/openapi.json", json).merge(page)
}
