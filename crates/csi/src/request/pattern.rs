//! Path patterns: where a volume lies, from the names, labels and annotations of its claim.
//!
//! `${pvc.namespace}`, `${pvc.name}`, `${pv.name}`, `${pvc.labels['KEY']}` and `${pvc.annotations['KEY']}` are replaced; all
//! else stands for itself. The result is a path from the root of the file system. Labels belong to users, so a value must be
//! one plain name: with a slash, or as `..`, it could lead into somebody else's volume.

use super::VolumePath;
use crate::claims::{Claim, Claims};
use crate::error::CsiError;
use std::collections::HashMap;
use std::fmt;

/// What of a claim a pattern asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Variable {
    Namespace,
    ClaimName,
    VolumeName,
    Label(String),
    Annotation(String),
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace => f.write_str("${pvc.namespace}"),
            Self::ClaimName => f.write_str("${pvc.name}"),
            Self::VolumeName => f.write_str("${pv.name}"),
            Self::Label(key) => write!(f, "${{pvc.labels['{key}']}}"),
            Self::Annotation(key) => write!(f, "${{pvc.annotations['{key}']}}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Of(Variable),
}

/// A pattern whose syntax is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern(Vec<Part>);

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence fragment.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text.trim_matches('/');
        while let Some(begin) = rest.find("${") {
            let (before, after) = rest.split_at(begin);
            let end = after.find('}').ok_or_else(|| format!("{text:?} has a \"${{\" without its \"}}\""))?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Of(variable(&after[2..end])?));
            rest = &after[end + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        let pattern = Self(parts);
        // With any plain value in the place of the variables it must be a path that stays below the root.
        let sample: String =
            pattern.0.iter().map(|part| if let Part::Text(text) = part { text } else { "x" }).collect();
        VolumePath::new(&sample)?;
        Ok(pattern)
    }

    /// Whether labels or annotations are needed.
    fn asks_the_claim(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Of(Variable::Label(_) | Variable::Annotation(_))))
    }

    /// The path for the claim that `parameters` name (`csi.storage.k8s.io/pvc/name` and its like).
    pub(crate) async fn path(
        &self,
        parameters: &HashMap<String, String>,
        claims: Option<&dyn Claims>,
    ) -> Result<VolumePath, CsiError> {
        let claim =
            if self.asks_the_claim() { read_claim(parameters, claims).await? } else { Claim::default() };
        let mut path = String::new();
        let mut faults = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => path.push_str(text),
                Part::Of(variable) => match value(variable, parameters, &claim) {
                    Ok(value) => path.push_str(value),
                    Err(fault) => faults.push(fault),
                },
            }
        }
        if !faults.is_empty() {
            return Err(CsiError::Faults(faults));
        }
        VolumePath::new(&path).map_err(|reason| CsiError::invalid("pathPattern", reason))
    }
}

fn variable(text: &str) -> Result<Variable, String> {
    let of = |map: &str| -> Option<String> {
        let key = text.trim().strip_prefix(map)?.strip_prefix('[')?.strip_suffix(']')?;
        let quoted = |quote: char| key.strip_prefix(quote).and_then(|key| key.strip_suffix(quote));
        quoted('\'').or_else(|| quoted('"')).filter(|key| !key.is_empty()).map(str::to_owned)
    };
    match text.trim() {
        "pvc.namespace" => Ok(Variable::Namespace),
        "pvc.name" => Ok(Variable::ClaimName),
        "pv.name" => Ok(Variable::VolumeName),
        _ => of("pvc.labels")
            .map(Variable::Label)
            .or_else(|| of("pvc.annotations").map(Variable::Annotation))
            .ok_or_else(|| {
                format!(
                    "\"${{{text}}}\" is unknown; known are ${{pvc.namespace}}, ${{pvc.name}}, ${{pv.name}}, \
                     ${{pvc.labels['KEY']}} and ${{pvc.annotations['KEY']}}"
                )
            }),
    }
}

const CLAIM_NAME: &str = "csi.storage.k8s.io/pvc/name";
const CLAIM_NAMESPACE: &str = "csi.storage.k8s.io/pvc/namespace";
const VOLUME_NAME: &str = "csi.storage.k8s.io/pv/name";

async fn read_claim(
    parameters: &HashMap<String, String>,
    claims: Option<&dyn Claims>,
) -> Result<Claim, CsiError> {
    let (Some(namespace), Some(name)) = (parameters.get(CLAIM_NAMESPACE), parameters.get(CLAIM_NAME)) else {
        return Err(CsiError::invalid("pathPattern", NO_METADATA));
    };
    let which = format!("{namespace}/{name}");
    let Some(claims) = claims else {
        return Err(CsiError::NoClaims {
            claim: which,
            reason: "the driver runs outside Kubernetes".to_owned(),
        });
    };
    match claims.claim(namespace, name).await {
        Ok(Some(claim)) => Ok(claim),
        Ok(None) => Err(CsiError::NoClaims { claim: which, reason: "there is none of that name".to_owned() }),
        Err(reason) => Err(CsiError::NoClaims { claim: which, reason }),
    }
}

const NO_METADATA: &str =
    "the request does not name its claim: start csi-provisioner with --extra-create-metadata";

/// The value of a variable, one plain name.
fn value<'a>(
    variable: &Variable,
    parameters: &'a HashMap<String, String>,
    claim: &'a Claim,
) -> Result<&'a str, String> {
    let found = match variable {
        Variable::Namespace => parameters.get(CLAIM_NAMESPACE),
        Variable::ClaimName => parameters.get(CLAIM_NAME),
        Variable::VolumeName => parameters.get(VOLUME_NAME),
        Variable::Label(key) => claim.labels.get(key),
        Variable::Annotation(key) => claim.annotations.get(key),
    };
    let Some(found) = found.filter(|value| !value.is_empty()) else {
        let fix = match variable {
            Variable::Label(_) => "give the claim this label",
            Variable::Annotation(_) => "give the claim this annotation",
            _ => "start csi-provisioner with --extra-create-metadata",
        };
        return Err(format!("pathPattern: {variable} has no value: {fix}, or change the pattern"));
    };
    if matches!(found.as_str(), "." | "..")
        || found.contains(['/', '\0'])
        || found.chars().any(char::is_control)
    {
        return Err(format!(
            "pathPattern: {variable} is {found:?}, which is not one plain name of a directory"
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::MemoryClaims;
    use std::collections::BTreeMap;

    const CHI: &str = "${pvc.namespace}/${pvc.labels['clickhouse.altinity.com/chi']}/${pvc.labels['shard']}-${pvc.annotations[\"r\"]}";

    fn parameters() -> HashMap<String, String> {
        let pairs = [(CLAIM_NAMESPACE, "prod"), (CLAIM_NAME, "data-0"), (VOLUME_NAME, "pvc-1")];
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    fn claims(labels: &[(&str, &str)]) -> MemoryClaims {
        let map =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let claim = Claim { labels: map(labels), annotations: map(&[("r", "1")]) };
        MemoryClaims(BTreeMap::from([(("prod".to_owned(), "data-0".to_owned()), claim)]))
    }

    #[tokio::test]
    async fn a_pattern_places_a_volume_by_labels_and_annotations_of_its_claim() {
        let claims = claims(&[("clickhouse.altinity.com/chi", "main"), ("shard", "0")]);
        let path = PathPattern::parse(CHI).unwrap().path(&parameters(), Some(&claims)).await.unwrap();
        assert_eq!(path.as_str(), "prod/main/0-1");
        let plain = PathPattern::parse("/a/${pv.name}/${pvc.name}/").unwrap();
        assert_eq!(plain.path(&parameters(), None).await.unwrap().as_str(), "a/pvc-1/data-0");
    }

    #[tokio::test]
    async fn all_missing_labels_are_named_and_none_may_leave_its_directory() {
        let pattern = PathPattern::parse(CHI).unwrap();
        let text = pattern.path(&parameters(), Some(&claims(&[]))).await.unwrap_err().to_string();
        assert!(text.contains("clickhouse.altinity.com/chi") && text.contains("'shard'"), "{text}");
        for bad in ["..", ".", "a/b", "/", "a\nb"] {
            let claims = claims(&[("clickhouse.altinity.com/chi", bad), ("shard", "0")]);
            let text = pattern.path(&parameters(), Some(&claims)).await.unwrap_err().to_string();
            assert!(text.contains("plain name"), "{bad:?}: {text}");
        }
        let nobody = pattern.path(&parameters(), None).await.unwrap_err().to_string();
        assert!(nobody.contains("outside Kubernetes"), "{nobody}");
        let unnamed = pattern.path(&HashMap::new(), Some(&claims(&[]))).await.unwrap_err().to_string();
        assert!(unnamed.contains("--extra-create-metadata"), "{unnamed}");
    }

    #[test]
    fn patterns_that_leave_the_root_or_ask_for_the_unknown_are_refused() {
        for bad in [
            "",
            "/",
            "..",
            "a/../b",
            "${pvc.name}/..",
            "a//b",
            "${pvc.name",
            "${pvc.uid}",
            "${pvc.labels[]}",
            "${}",
        ] {
            assert!(PathPattern::parse(bad).is_err(), "{bad}");
        }
        // Beside a value the dots are part of a name.
        assert!(PathPattern::parse("..${pvc.name}").is_ok());
    }
}
