//! Pictures of contact and join ways: what a page shows and a customer scans. The code in it names the way and leads nowhere.

use axum::body::Body;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use qrcode::{Color, EcLevel, QrCode};

use crate::world::World;

pub(super) const PATH: &str = "/wwqr/";

/// Width and height of a module, and the quiet zone around the code in modules.
const SCALE: usize = 6;
const QUIET: usize = 4;

/// The picture of a way that somebody has.
pub(super) fn answer(world: &World, file: &str) -> Response<Body> {
    let known = file
        .strip_suffix(".png")
        .filter(|config_id| world.has_way(config_id));
    let mut response = Response::new(Body::empty());
    let Some(config_id) = known else {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    match draw(&format!("wecom-sim:way:{config_id}")) {
        Some(png) => {
            let image = HeaderValue::from_static("image/png");
            response.headers_mut().insert(CONTENT_TYPE, image);
            *response.body_mut() = Body::from(png);
        }
        None => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    response
}

/// A grey PNG.
fn draw(text: &str) -> Option<Vec<u8>> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
    let (modules, colors) = (code.width(), code.to_colors());
    let side = (modules + 2 * QUIET) * SCALE;
    let dark = |x: usize, y: usize| {
        let module = |at: usize| (at / SCALE).checked_sub(QUIET).filter(|at| *at < modules);
        let (Some(x), Some(y)) = (module(x), module(y)) else {
            return false;
        };
        colors.get(y * modules + x) == Some(&Color::Dark)
    };
    let pixels: Vec<u8> = (0..side)
        .flat_map(|y| (0..side).map(move |x| (x, y)))
        .map(|(x, y)| if dark(x, y) { 0 } else { u8::MAX })
        .collect();
    let mut file = Vec::new();
    let width = u32::try_from(side).ok()?;
    let mut encoder = png::Encoder::new(&mut file, width, width);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&pixels).ok()?;
    writer.finish().ok()?;
    Some(file)
}
