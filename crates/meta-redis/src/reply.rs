//! Reading what scripts answer.

use bytes::Bytes;
use carafe_meta::store::StoreError;
use carafe_types::Timestamp;
use redis::Value;
use std::str::FromStr;

/// An answer that is not what the script gives.
pub(crate) fn odd(what: &str, value: &Value) -> StoreError {
    let mut shown = format!("{value:?}");
    if shown.len() > 200 {
        shown = shown.chars().take(200).collect::<String>() + "...";
    }
    StoreError::Engine(format!("the server gave an unexpected answer: {what} is {shown}"))
}

/// Bytes, or nothing.
pub(crate) fn optional(value: Value) -> Result<Option<Bytes>, StoreError> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        Value::SimpleString(text) => Ok(Some(text.into())),
        other => Err(odd("a value", &other)),
    }
}

/// Bytes.
pub(crate) fn bytes(value: Value) -> Result<Bytes, StoreError> {
    optional(value)?.ok_or_else(|| odd("a value", &Value::Nil))
}

/// An array.
pub(crate) fn array(value: Value) -> Result<Vec<Value>, StoreError> {
    match value {
        Value::Array(items) => Ok(items),
        // RESP3 maps, should a proxy speak it.
        Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(k, v)| [k, v]).collect()),
        other => Err(odd("an array", &other)),
    }
}

/// A number, as an integer or as decimal text.
pub(crate) fn number<T: FromStr + TryFrom<i64>>(value: &Value) -> Result<T, StoreError> {
    let parsed = match value {
        Value::Int(n) => T::try_from(*n).ok(),
        Value::BulkString(b) => std::str::from_utf8(b).ok().and_then(|t| t.parse().ok()),
        _ => None,
    };
    parsed.ok_or_else(|| odd("a number", value))
}

/// Text.
pub(crate) fn text(value: Value) -> Result<String, StoreError> {
    let bytes = bytes(value)?;
    String::from_utf8(bytes.to_vec()).map_err(|e| StoreError::Engine(format!("the server gave no text: {e}")))
}

/// Pairs of fields and values.
pub(crate) fn pairs(value: Value) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
    let mut items = array(value)?.into_iter();
    let mut out = Vec::with_capacity(items.len() / 2);
    while let (Some(k), Some(v)) = (items.next(), items.next()) {
        out.push((bytes(k)?, bytes(v)?));
    }
    Ok(out)
}

/// What TIME says: seconds and microseconds.
pub(crate) fn time(secs: &Value, micros: &Value) -> Result<Timestamp, StoreError> {
    let (secs, micros): (i64, u32) = (number(secs)?, number(micros)?);
    Ok(Timestamp::from_parts(secs, micros.saturating_mul(1000)))
}

/// Microseconds, as scores of queues count.
pub(crate) fn score(value: &Value) -> Result<Timestamp, StoreError> {
    let micros = match value {
        Value::Double(d) => Some(*d),
        Value::Int(n) => Some(*n as f64),
        Value::BulkString(b) => std::str::from_utf8(b).ok().and_then(|t| t.parse::<f64>().ok()),
        _ => None,
    };
    let micros = micros.ok_or_else(|| odd("a time", value))?;
    Ok(Timestamp((micros as i64).saturating_mul(1000)))
}

/// The items of a script's answer after its letter. The letters that every script may give are errors here.
pub(crate) fn answer(value: Value) -> Result<(u8, std::vec::IntoIter<Value>), StoreError> {
    let mut items = array(value)?.into_iter();
    let letter = bytes(items.next().unwrap_or_default())?;
    match letter.as_ref() {
        b"N" => Err(StoreError::NotFormatted),
        b"G" => Err(StoreError::Generation),
        b"F" => Err(StoreError::Fenced),
        b"L" => Err(StoreError::Lost(
            "the record of this session's last commit is older than its answer".to_owned(),
        )),
        [letter] => Ok((*letter, items)),
        _ => Err(odd("the kind of an answer", &Value::BulkString(letter.to_vec()))),
    }
}

/// The next item of an answer.
pub(crate) fn next(items: &mut std::vec::IntoIter<Value>) -> Result<Value, StoreError> {
    items.next().ok_or_else(|| StoreError::Engine("the server gave an answer that ends too early".to_owned()))
}
