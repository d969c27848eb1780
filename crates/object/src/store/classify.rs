//! From the errors of the `object_store` library to ours.
//!
//! The library tells 404, 401 and 403 apart and hides the rest in text: its type with status and body is private. What
//! is needed is in that text in forms that the services' protocols fix: the XML `<Code>` of S3, Google and Azure, and
//! the status number. `tests/s3.rs` holds the library and a real server to it.

use crate::client::Verb;
use crate::error::ObjectError;
use object_store::Error;
use object_store::client::HttpError;
use std::error::Error as StdError;
use std::io;

/// Longest text of a service that is repeated in a message, in bytes.
const DETAIL_MAX: usize = 300;

/// What was asked for.
pub(super) struct Request<'a> {
    pub(super) bucket: &'a str,
    pub(super) verb: Verb,
    pub(super) target: &'a str,
}

/// The kind of a failure, before it is given the names of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NotFound,
    NoBucket,
    Denied,
    WrongKey,
    Unreachable,
    Other,
}

pub(super) fn classify(error: Error, request: &Request<'_>) -> ObjectError {
    let text = error.to_string();
    let kind = kind(&error, &text, request.verb);
    let (bucket, verb, target) = (request.bucket.to_owned(), request.verb, request.target.to_owned());
    let detail = detail(&text);
    match kind {
        Kind::NotFound => ObjectError::NotFound { object: target },
        Kind::NoBucket => ObjectError::NoBucket { bucket, detail },
        Kind::Denied => ObjectError::Denied { bucket, verb, target, detail },
        Kind::WrongKey => ObjectError::WrongKey { bucket, detail },
        Kind::Unreachable => ObjectError::Unreachable { bucket, detail },
        Kind::Other => ObjectError::Other { bucket, verb, target, detail },
    }
}

fn kind(error: &Error, text: &str, verb: Verb) -> Kind {
    if asked_for_a_role(text) && status(text).is_some_and(|status| status < 500) {
        // The metadata service answered, and has no role for us: it is not the bucket that said no.
        return Kind::WrongKey;
    }
    code(text)
        .and_then(kind_of_code)
        .or_else(|| kind_of_variant(error, verb))
        .or_else(|| kind_of_status(text, verb))
        .or_else(|| kind_of_cause(error))
        .unwrap_or(Kind::Other)
}

/// The service said it in a word.
fn kind_of_code(code: &str) -> Option<Kind> {
    match code {
        "NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted" => Some(Kind::NoBucket),
        "NoSuchKey" | "BlobNotFound" => Some(Kind::NotFound),
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "ExpiredToken"
        | "TokenRefreshRequired"
        | "InvalidSecurity"
        | "AuthenticationFailed"
        | "InvalidAuthenticationInfo" => Some(Kind::WrongKey),
        "AccessDenied"
        | "AllAccessDisabled"
        | "AccountProblem"
        | "RequestTimeTooSkewed"
        | "AuthorizationFailure"
        | "AuthorizationPermissionMismatch" => Some(Kind::Denied),
        "SlowDown" | "InternalError" | "ServiceUnavailable" | "RequestTimeout" | "ServerBusy"
        | "OperationTimedOut" | "OperationAborted" => Some(Kind::Unreachable),
        _ => None,
    }
}

/// The library recognised it. A put or a listing that finds nothing has not found the bucket.
fn kind_of_variant(error: &Error, verb: Verb) -> Option<Kind> {
    match error {
        Error::NotFound { .. } if matches!(verb, Verb::Put | Verb::List | Verb::Delete) => {
            Some(Kind::NoBucket)
        }
        Error::NotFound { .. } => Some(Kind::NotFound),
        Error::PermissionDenied { .. } => Some(Kind::Denied),
        Error::Unauthenticated { .. } => Some(Kind::WrongKey),
        _ => None,
    }
}

fn kind_of_status(text: &str, verb: Verb) -> Option<Kind> {
    match status(text)? {
        404 if verb == Verb::List => Some(Kind::NoBucket),
        401 => Some(Kind::WrongKey),
        403 => Some(Kind::Denied),
        408 | 429 | 500 | 502..=504 => Some(Kind::Unreachable),
        _ => None,
    }
}

/// The request or its reply got lost, or the disk said no.
fn kind_of_cause(error: &Error) -> Option<Kind> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(e) = cause {
        if e.downcast_ref::<HttpError>().is_some() {
            return Some(Kind::Unreachable);
        }
        if let Some(e) = e.downcast_ref::<io::Error>() {
            return match e.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Some(Kind::Denied),
                _ => None,
            };
        }
        cause = e.source();
    }
    None
}

/// The text between the first `<Code>` and its end, or in the library's `(code: ...)` for one key of a bulk delete.
fn code(text: &str) -> Option<&str> {
    between(text, "<Code>", "</Code>").or_else(|| between(text, "(code: ", ")"))
}

/// Whether it was the request for the credentials of the machine that failed (the metadata address of all clouds).
fn asked_for_a_role(text: &str) -> bool {
    text.contains("http://169.254.169.254/")
}

/// The number behind the library's "status code: ".
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    text.split_once(open)?.1.split_once(close).map(|(inside, _)| inside)
}

/// What a person needs of the text: code and message of the service, or the text itself, on one line.
fn detail(text: &str) -> String {
    let hint = match text {
        _ if asked_for_a_role(text) => "no keys given and no instance role answers: ",
        _ if text.contains("without LOCATION") || text.contains("PermanentRedirect") => {
            "set the region of the bucket: "
        }
        _ => "",
    };
    let said = match (code(text), between(text, "<Message>", "</Message>")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    let mut end = said.len().min(DETAIL_MAX);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    format!("{hint}{}", &said[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::client::HttpErrorKind;

    fn generic(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    fn kind_for(error: Error, verb: Verb) -> Kind {
        kind(&error, &error.to_string(), verb)
    }

    #[test]
    fn the_code_of_the_service_wins() {
        let with_code =
            |code: &str| generic(&format!("status code: 403 Forbidden: <Error><Code>{code}</Code></Error>"));
        assert_eq!(kind_for(with_code("NoSuchBucket"), Verb::Get), Kind::NoBucket);
        assert_eq!(kind_for(with_code("SignatureDoesNotMatch"), Verb::Get), Kind::WrongKey);
        assert_eq!(kind_for(with_code("AccessDenied"), Verb::Put), Kind::Denied);
        assert_eq!(kind_for(with_code("SlowDown"), Verb::Put), Kind::Unreachable);
        assert_eq!(
            kind_for(generic("failed for key x: no (code: AccessDenied)"), Verb::Delete),
            Kind::Denied
        );
    }

    #[test]
    fn a_404_means_the_bucket_where_no_object_is_asked_for() {
        let missing = || Error::NotFound { path: "k".into(), source: "404".into() };
        assert_eq!(kind_for(missing(), Verb::Get), Kind::NotFound);
        assert_eq!(kind_for(missing(), Verb::Head), Kind::NotFound);
        assert_eq!(kind_for(missing(), Verb::Put), Kind::NoBucket);
        assert_eq!(kind_for(generic("status code: 404 Not Found"), Verb::List), Kind::NoBucket);
    }

    #[test]
    fn overload_and_lost_connections_are_transient() {
        for status in [408, 429, 500, 502, 503, 504] {
            assert_eq!(kind_for(generic(&format!("status code: {status} x")), Verb::Put), Kind::Unreachable);
        }
        for status in [400, 411, 416, 501] {
            assert_eq!(kind_for(generic(&format!("status code: {status} x")), Verb::Put), Kind::Other);
        }
        let lost = HttpError::new(HttpErrorKind::Interrupted, io::Error::other("reset"));
        let lost = Error::Generic { store: "S3", source: Box::new(lost) };
        assert_eq!(kind_for(lost, Verb::Get), Kind::Unreachable);
    }

    #[test]
    fn a_disk_that_says_no_is_denied_and_a_full_one_is_not_hidden() {
        let disk = |kind| Error::Generic { store: "L", source: Box::new(io::Error::new(kind, "disk")) };
        assert_eq!(kind_for(disk(io::ErrorKind::PermissionDenied), Verb::Put), Kind::Denied);
        assert_eq!(kind_for(disk(io::ErrorKind::StorageFull), Verb::Put), Kind::Other);
    }

    #[test]
    fn a_machine_without_a_role_lacks_a_key() {
        let answer = |status: &str| {
            generic(&format!(
                "PUT http://169.254.169.254/latest/api/token in 1ms - non-2xx status code: {status}"
            ))
        };
        assert_eq!(kind_for(answer("403 Forbidden"), Verb::List), Kind::WrongKey);
        assert_eq!(kind_for(answer("404 Not Found"), Verb::Get), Kind::WrongKey);
        assert_eq!(kind_for(answer("503 Service Unavailable"), Verb::Get), Kind::Unreachable);
    }

    #[test]
    fn details_are_short_and_on_one_line() {
        let text = format!("<Code>X</Code>\n<Message>{}</Message>", "ä\n".repeat(1000));
        assert!(detail(&text).len() <= DETAIL_MAX && detail(&text).starts_with("X: ä"));
        assert_eq!(detail("a\n  b"), "a b");
        assert!(detail("PUT http://169.254.169.254/latest/api/token").starts_with("no keys given"));
    }
}
