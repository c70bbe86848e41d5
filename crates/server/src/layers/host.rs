//! By which name we are called. A page that has its name point to this machine calls us by that name.

use crate::listen::Address;
use crate::{Problem, State};
use axum::extract::Request;
use axum::http::header;
use axum::http::uri::Authority;
use axum::http::{StatusCode, Uri};

const OWN: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// What the request calls us.
#[derive(Clone, Debug)]
pub(super) struct CalledBy(pub(super) Authority);

/// The name, if it is one of ours.
pub(super) fn check(state: &State, request: &Request) -> Result<CalledBy, Problem> {
    let name = called(request).map_err(|why| Problem::bad_request("invalid_host", why))?;
    if is_ours(&name, state) { Ok(CalledBy(name)) } else { Err(misdirected(&name)) }
}

/// The name the request has for us, in the header or in the first line. Where it is in both, it has to be the same.
fn called(request: &Request) -> Result<Authority, &'static str> {
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
    if [&line, &header].into_iter().flatten().any(|name| name.as_str().contains('@')) {
        return Err("`Host` has a user in it");
    }
    match (line, header) {
        (None, None) => Err("there is no `Host` header"),
        (Some(line), Some(header)) if !line.as_str().eq_ignore_ascii_case(header.as_str()) => {
            Err("the address of the request and `Host` name different hosts")
        }
        (Some(name), _) | (None, Some(name)) => Ok(name),
    }
}

fn is_ours(name: &Authority, state: &State) -> bool {
    let host = name.host();
    let same = |ours: &str| ours.eq_ignore_ascii_case(host) || ours.eq_ignore_ascii_case(name.as_str());
    let is_bound = || match state.address() {
        Address::Tcp(address) if !address.ip().is_unspecified() => {
            let ip = address.ip();
            same(&if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() })
        }
        _ => same(""),
    };
    let configured = &state.options().allowed_hosts;
    OWN.into_iter().any(same) || is_bound() || configured.iter().any(|ours| ours == "*" || same(ours))
}

fn misdirected(name: &Authority) -> Problem {
    let detail = format!("this server is not `{}`", name.host());
    Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", detail)
        .hint("call it by `localhost`, or add the name to `allowed_hosts`")
}
