//! The few questions that the driver has for the API of Kubernetes, with the service account of its pod.
//!
//! 1. Labels and annotations of a claim, for path patterns ([`ClaimsOfCluster`]).
//! 2. Which pods use volumes of the driver, before it is uninstalled ([`pods_with_volumes`]).
//!
//! Answers are read as plain JSON: each question needs three fields of objects that have hundreds.

use async_trait::async_trait;
use carafe_csi::{Claim, Claims};
use reqwest::{Certificate, Client, StatusCode};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Where kubelet puts what a pod proves itself with.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const API: &str = "https://kubernetes.default.svc";
/// Calls of sidecars wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The API, as the pod of this process reaches it.
struct Api(Client);

impl Api {
    /// `None` outside a cluster, where no service account is.
    fn in_cluster() -> Option<Result<Self, String>> {
        let certificate = Path::new(ACCOUNT).join("ca.crt");
        let pem = std::fs::read(certificate).ok()?;
        let client = Certificate::from_pem_bundle(&pem)
            .and_then(|trusted| Client::builder().tls_certs_only(trusted).timeout(PATIENCE).build());
        Some(client.map(Self).map_err(|e| format!("no way to the Kubernetes API: {}", chain(&e))))
    }

    /// The object at `path`, `None` if there is none.
    async fn get(&self, path: &[&str]) -> Result<Option<Value>, String> {
        // The token is changed every hour.
        let token = std::fs::read_to_string(Path::new(ACCOUNT).join("token"))
            .map_err(|e| format!("the service account's token cannot be read: {e}"))?;
        let mut url = url::Url::parse(API).expect("a constant URL is valid");
        url.path_segments_mut().expect("an https URL has a path").extend(path);
        let asked = self.0.get(url).bearer_auth(token.trim()).send().await;
        let answer = asked.map_err(|e| format!("the Kubernetes API does not answer: {}", chain(&e)))?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(|e| format!("the Kubernetes API: {}", chain(&e)))?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let body: Value = serde_json::from_slice(&body)
            .map_err(|_| format!("the Kubernetes API answers {status} and no JSON"))?;
        if !status.is_success() {
            let why = body["message"].as_str().unwrap_or("without a reason");
            return Err(format!("the Kubernetes API answers {status}: {why}"));
        }
        Ok(Some(body))
    }

    async fn list(&self, path: &[&str]) -> Result<Vec<Value>, String> {
        let mut answer = self.get(path).await?.unwrap_or_default();
        match answer["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Err(format!("the Kubernetes API answers no list of {}", path.join("/"))),
        }
    }
}

/// An error with its causes: `reqwest` keeps the part that helps in the last one.
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// [`Claims`] of the cluster that this process runs in.
pub(crate) struct ClaimsOfCluster(Api);

impl ClaimsOfCluster {
    /// `None` outside a cluster; then patterns with labels are refused with a reason.
    pub(crate) fn new() -> Option<Self> {
        match Api::in_cluster()? {
            Ok(api) => Some(Self(api)),
            Err(reason) => {
                tracing::warn!(reason, "path patterns cannot use labels");
                None
            }
        }
    }
}

#[async_trait]
impl Claims for ClaimsOfCluster {
    async fn claim(&self, namespace: &str, name: &str) -> Result<Option<Claim>, String> {
        let path = ["api", "v1", "namespaces", namespace, "persistentvolumeclaims", name];
        let found = self.0.get(&path).await?;
        Ok(found.map(|object| Claim {
            labels: texts(&object["metadata"]["labels"]),
            annotations: texts(&object["metadata"]["annotations"]),
        }))
    }
}

fn texts(map: &Value) -> BTreeMap<String, String> {
    let pairs = map.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// `NAMESPACE/POD (claim NAME)` of each pod that has a volume of `driver` and has not ended.
pub(crate) async fn pods_with_volumes(driver: &str) -> Result<Vec<String>, String> {
    let api = Api::in_cluster().ok_or("this is no pod of a Kubernetes cluster")??;
    let claims = claims_of(&api.list(&["api", "v1", "persistentvolumes"]).await?, driver);
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    Ok(users(&api.list(&["api", "v1", "pods"]).await?, &claims))
}

/// Namespace and name of the claims that are bound to volumes of `driver`.
fn claims_of(volumes: &[Value], driver: &str) -> BTreeSet<(String, String)> {
    let ours = volumes.iter().map(|volume| &volume["spec"]).filter(|spec| spec["csi"]["driver"] == driver);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    ours.filter_map(|spec| Some((text(&spec["claimRef"]["namespace"])?, text(&spec["claimRef"]["name"])?)))
        .collect()
}

/// The pods that use one of `claims`, are on a node, and have not ended.
fn users(pods: &[Value], claims: &BTreeSet<(String, String)>) -> Vec<String> {
    let mut users = Vec::new();
    for pod in pods {
        let phase = pod["status"]["phase"].as_str();
        if pod["spec"]["nodeName"].is_null() || matches!(phase, Some("Succeeded" | "Failed")) {
            continue;
        }
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let Some(claim) = claim_of(volume, name) else { continue };
            if claims.contains(&(namespace.to_owned(), claim.clone())) {
                users.push(format!("{namespace}/{name} (claim {claim})"));
            }
        }
    }
    users
}

/// The claim of a pod's volume; that of a generic ephemeral one has a name made of both.
fn claim_of(volume: &Value, pod: &str) -> Option<String> {
    if volume["ephemeral"].is_object() {
        return Some(format!("{pod}-{}", volume["name"].as_str()?));
    }
    volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(driver: &str, claim: &str) -> Value {
        json!({"spec": {"csi": {"driver": driver}, "claimRef": {"namespace": "a", "name": claim}}})
    }

    fn pod(name: &str, phase: &str, volume: Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"nodeName": "n", "volumes": [volume]},
               "status": {"phase": phase}})
    }

    #[test]
    fn pods_are_users_while_they_run_and_their_claim_is_of_the_driver() {
        let claims =
            claims_of(&[volume("ours", "data"), volume("theirs", "other"), volume("ours", "e-tmp")], "ours");
        let with = |claim: &str| json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
        let pods = [
            pod("runs", "Running", with("data")),
            pod("ended", "Succeeded", with("data")),
            pod("foreign", "Running", with("other")),
            pod("e", "Pending", json!({"name": "tmp", "ephemeral": {}})),
            json!({"metadata": {"name": "waits", "namespace": "a"}, "spec": {"volumes": [with("data")]}}),
        ];
        assert_eq!(users(&pods, &claims), ["a/runs (claim data)", "a/e (claim e-tmp)"]);
    }

    #[test]
    fn labels_that_are_no_texts_are_left_out() {
        let found = texts(&json!({"a": "b", "c": 1}));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("a".to_owned(), "b".to_owned())]);
    }
}
