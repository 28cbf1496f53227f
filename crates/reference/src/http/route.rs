//! What a path and a method ask for.

use hyper::{Method, StatusCode};

use super::rejection::Rejection;

/// A model, and its version where the path has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) name: String,
    pub(super) version: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Live,
    Ready,
    ServerMetadata,
    ModelReady(Model),
    ModelMetadata(Model),
    ModelConfig(Model),
    /// Without a name, of all models.
    Statistics(Model),
    Infer(Model),
    Index,
    Load(String),
    Unload(String),
}

impl Route {
    /// Finds out what a request asks for.
    ///
    /// # Errors
    /// There is no such path, or it takes other methods.
    pub(super) fn of(method: &Method, path: &str) -> Result<Self, Rejection> {
        let parts: Vec<_> = path.split('/').collect();
        let not_found = || Rejection::new(StatusCode::NOT_FOUND, "Not Found").said_as_text();
        let route = Self::of_parts(&parts).ok_or_else(not_found)?;
        if *method == route.method() {
            return Ok(route);
        }
        let rejection = Rejection::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        let says_json = !matches!(route, Self::Live | Self::Ready | Self::ModelReady(_) | Self::Infer(_));
        Err(if says_json { rejection } else { rejection.said_as_text() })
    }

    fn of_parts(parts: &[&str]) -> Option<Self> {
        Some(match parts {
            ["", "v2"] => Self::ServerMetadata,
            ["", "v2", "health", "live"] => Self::Live,
            ["", "v2", "health", "ready"] => Self::Ready,
            ["", "v2", "models", "stats"] => Self::Statistics(Model { name: String::new(), version: String::new() }),
            ["", "v2", "models", name, "versions", version, rest @ ..] if is_version(version) => {
                Self::of_model(name, version, rest)?
            }
            ["", "v2", "models", name, rest @ ..] => Self::of_model(name, "", rest)?,
            // The repository's name says nothing: there is one.
            ["", "v2", "repository", "index"] | ["", "v2", "repository", _, "index"] => Self::Index,
            ["", "v2", "repository", "models", name, what] | ["", "v2", "repository", _, "models", name, what]
                if !name.is_empty() =>
            {
                match *what {
                    "load" => Self::Load((*name).to_owned()),
                    "unload" => Self::Unload((*name).to_owned()),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    fn of_model(name: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let model = (!name.is_empty()).then(|| Model { name: name.to_owned(), version: version.to_owned() })?;
        Some(match rest {
            [] => Self::ModelMetadata(model),
            ["ready"] => Self::ModelReady(model),
            ["config"] => Self::ModelConfig(model),
            ["stats"] => Self::Statistics(model),
            ["infer"] => Self::Infer(model),
            _ => return None,
        })
    }

    fn method(&self) -> Method {
        match self {
            Self::Infer(_) | Self::Index | Self::Load(_) | Self::Unload(_) => Method::POST,
            _ => Method::GET,
        }
    }
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_understood() {
        let model = |name: &str, version: &str| Model { name: name.to_owned(), version: version.to_owned() };
        for (method, path, route) in [
            ("GET", "/v2", Route::ServerMetadata),
            ("GET", "/v2/health/live", Route::Live),
            ("GET", "/v2/health/ready", Route::Ready),
            ("GET", "/v2/models/stats", Route::Statistics(model("", ""))),
            ("GET", "/v2/models/m", Route::ModelMetadata(model("m", ""))),
            ("GET", "/v2/models/m/versions/12", Route::ModelMetadata(model("m", "12"))),
            ("GET", "/v2/models/m/ready", Route::ModelReady(model("m", ""))),
            ("GET", "/v2/models/m/versions/1/config", Route::ModelConfig(model("m", "1"))),
            ("GET", "/v2/models/stats/stats", Route::Statistics(model("stats", ""))),
            ("POST", "/v2/models/m/versions/1/infer", Route::Infer(model("m", "1"))),
            ("POST", "/v2/repository/index", Route::Index),
            ("POST", "/v2/repository/r/index", Route::Index),
            ("POST", "/v2/repository/models/m/load", Route::Load("m".to_owned())),
            ("POST", "/v2/repository/r/models/m/unload", Route::Unload("m".to_owned())),
        ] {
            assert_eq!(Route::of(&method.parse().expect("a method"), path), Ok(route), "{path}");
        }
    }

    /// As the real server said it.
    #[test]
    fn other_paths_and_methods_are_rejected() {
        for path in [
            "/",
            "/v3",
            "//v2",
            "/v2/",
            "/v2/nothing",
            "/v2/health",
            "/v2/health/other",
            "/v2/health/live/",
            "/v2/models",
            "/v2/models/stats/",
            "/v2/models/m/",
            "/v2/models/m/other",
            "/v2/models/m/versions/x",
            "/v2/models/m/versions//ready",
            "/v2/models//ready",
            "/v2/repository/models/m/other",
            "/metrics",
        ] {
            let rejection = Rejection::new(StatusCode::NOT_FOUND, "Not Found").said_as_text();
            assert_eq!(Route::of(&Method::GET, path), Err(rejection), "{path}");
        }
        for (method, path, is_json) in [
            ("POST", "/v2", true),
            ("HEAD", "/v2", true),
            ("POST", "/v2/health/live", false),
            ("POST", "/v2/models/m", true),
            ("POST", "/v2/models/m/config", true),
            ("POST", "/v2/models/m/stats", true),
            ("GET", "/v2/models/m/infer", false),
            ("PUT", "/v2/models/m/infer", false),
            ("GET", "/v2/repository/index", true),
            ("GET", "/v2/repository/models/m/load", true),
        ] {
            let rejection = Route::of(&method.parse().expect("a method"), path).expect_err("another method");
            assert_eq!((rejection.text.as_str(), rejection.is_json), ("Method Not Allowed", is_json), "{path}");
        }
    }
}
