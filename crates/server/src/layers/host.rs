//! By which name we are called. A page that has its name point to this machine calls us by that name.

use crate::listen::Address;
use crate::{Problem, State};
use axum::extract::Request;
use axum::http::header;
use axum::http::uri::Authority;
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

const OWN: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// What the request calls us, for those who come later.
#[derive(Clone, Debug)]
pub(super) struct CalledBy(pub(super) Authority);

pub(super) async fn host(state: State, mut request: Request, next: Next) -> Response {
    match called(&request) {
        Ok(names) => {
            for name in &names {
                if !is_ours(name, &state) {
                    return misdirected(name).into_response();
                }
            }
            if let Some(name) = names.into_iter().next() {
                request.extensions_mut().insert(CalledBy(name));
            }
            next.run(request).await
        }
        Err(why) => Problem::bad_request("invalid_host", why).into_response(),
    }
}

/// All names the request has for us: in the header, and in the first line.
fn called(request: &Request) -> Result<Vec<Authority>, &'static str> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let header = headers.next();
    if headers.next().is_some() {
        return Err("there is more than one `Host` header");
    }
    let header = match header {
        Some(value) => {
            Some(Authority::try_from(value.as_bytes()).map_err(|_| "`Host` is no name of a host")?)
        }
        None => None,
    };
    let line = Uri::authority(request.uri()).cloned();
    let names: Vec<Authority> = [line, header].into_iter().flatten().collect();
    match names.as_slice() {
        [] => Err("there is no `Host` header"),
        names if names.iter().any(|name| name.as_str().contains('@')) => Err("`Host` has a user in it"),
        [line, header] if !line.as_str().eq_ignore_ascii_case(header.as_str()) => {
            Err("the address of the request and `Host` name different hosts")
        }
        _ => Ok(names),
    }
}

fn is_ours(name: &Authority, state: &State) -> bool {
    let host = name.host();
    let same = |ours: &str| ours.eq_ignore_ascii_case(host) || ours.eq_ignore_ascii_case(name.as_str());
    let bound = match state.address() {
        Address::Tcp(address) if !address.ip().is_unspecified() => {
            let ip = address.ip();
            if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
        }
        _ => String::new(),
    };
    let configured = &state.options().allowed_hosts;
    OWN.into_iter().any(same) || same(&bound) || configured.iter().any(|ours| ours == "*" || same(ours))
}

fn misdirected(name: &Authority) -> Problem {
    let detail = format!("this server is not `{}`", name.host());
    Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail)
        .hint("call it by `localhost`, or add the name to `allowed_hosts`")
}
