//! Tokens: `sbx_<id>_<secret>`. The id finds the key, and is no secret.

use crate::{Secret, ServerError};
use engine::storage::ApiKey;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The id of the operator's token in records; the one it carries itself changes with the file.
pub(crate) const OPERATOR: &str = "operator";

const PREFIX: &str = "sbx_";
/// Five bits each, and none that is mistaken for another.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 130 bits.
const ID: usize = 26;
/// 260 bits.
const SECRET: usize = 52;
/// A token of the operator's own that is shorter could be guessed.
const SHORTEST: usize = 16;

/// A token that nobody has had before.
pub(crate) struct NewToken {
    pub(crate) id: String,
    pub(crate) secret_sha256: String,
    pub(crate) token: Secret,
}

impl NewToken {
    /// From the kernel's random numbers.
    pub(crate) fn make() -> std::io::Result<NewToken> {
        let (id, secret) = (random(ID)?, random(SECRET)?);
        let token = Secret::new(format!("{PREFIX}{id}_{secret}"));
        Ok(NewToken { id, secret_sha256: ApiKey::hash(&secret), token })
    }
}

/// Id and secret of a token.
pub(super) fn split(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.strip_prefix(PREFIX)?.split_once('_')?;
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (id.len() <= 64 && plain(id) && plain(secret)).then_some((id, secret))
}

/// A token that the operator has chosen.
pub(super) fn given(token: &Secret) -> Result<Secret, ServerError> {
    let text = token.reveal().trim();
    if text.len() < SHORTEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ServerError::Token(format!(
            "the token has fewer than {SHORTEST} characters, or others than letters, digits and signs"
        )));
    }
    Ok(Secret::new(text))
}

/// The token in this file, which is made if it is not there.
pub(super) fn in_file(path: &Path) -> Result<Secret, ServerError> {
    let failed = |e: std::io::Error| ServerError::file(path, &e);
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(mut file) => {
            let token = NewToken::make().map_err(failed)?.token;
            file.write_all(format!("{}\n", token.reveal()).as_bytes()).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            Ok(token)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(failed(error)),
    }
}

fn read(path: &Path) -> Result<Secret, ServerError> {
    let failed = |e: std::io::Error| ServerError::file(path, &e);
    let mut file = OpenOptions::new().read(true).open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode();
    if mode & 0o077 != 0 {
        let path = path.display();
        return Err(ServerError::Token(format!(
            "others may read the token in `{path}`: run `chmod 600 {path}`, or remove it to get another"
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    given(&Secret::new(text)).map_err(|_| {
        ServerError::Token(format!("there is no token in `{}`: remove the file", path.display()))
    })
}

fn random(length: usize) -> std::io::Result<String> {
    let mut bytes = vec![0u8; length];
    let mut filled = 0;
    while filled < length {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.into_iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn tokens_are_random_and_come_apart_again() {
        let tokens: Vec<NewToken> = (0..10_000).map(|_| NewToken::make().unwrap()).collect();
        let ids: HashSet<&str> = tokens.iter().map(|token| token.id.as_str()).collect();
        assert_eq!(ids.len(), tokens.len());
        // No order: neighbours agree in as many letters as strangers do, one in 32.
        let pairs = tokens.windows(2).map(|pair| pair[0].id.bytes().zip(pair[1].id.bytes()));
        let alike: usize = pairs.map(|pair| pair.filter(|(a, b)| a == b).count()).sum();
        let expected = 9_999 * ID / 32;
        assert!(alike.abs_diff(expected) < expected / 10, "{alike} of about {expected}");
        let (id, secret) = split(tokens[0].token.reveal()).unwrap();
        assert_eq!((id, ApiKey::hash(secret)), (tokens[0].id.as_str(), tokens[0].secret_sha256.clone()));
        assert!(!format!("{:?}", tokens[0].token).contains(secret));
    }

    #[test]
    fn what_is_no_token_is_none() {
        for text in ["", "sbx_", "sbx_a", "sbx__b", "sbx_a_", "sbx_a_b c", "xbx_a_b", "sbx_../_x"] {
            assert_eq!(split(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_keeps_its_token_and_only_for_us() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = in_file(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(in_file(&path).unwrap(), token);
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(in_file(&path).unwrap_err().to_string().contains("chmod 600"));
    }
}
