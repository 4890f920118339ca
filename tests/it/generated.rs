//! What is committed although it is made of something else: `GENERATE=1 cargo test --test it generated` writes it anew.

use std::fs;
use std::process::Command;

use crate::manifests::render;
use crate::scene::{BINARY, manifests};
use crate::values_table;

/// What stands before the table in the README of the chart, and behind it.
const TABLE_BEGINS: &str = "<!-- made of values.yaml: -->\n";
const TABLE_ENDS: &str = "<!-- so far -->\n";

#[test]
fn the_generated_files_are_what_their_sources_say() {
    let crd = printed(&["crd"]);
    settle("crd/crd.yaml", &crd);
    settle("install.yaml", &render(&manifests().join("default")));
    settle("charts/restow/templates/crd.yaml", &crd_template(&crd));
    settle("charts/restow/README.md", &chart_readme());
    let rules = fs::read_to_string(manifests().join("monitoring/rules.yaml")).unwrap();
    settle("components/monitoring/prometheus-rule/prometheus-rule.yaml", &prometheus_rule(&rules));
    settle("charts/restow/files/rules.yaml", &rules);
    settle("gitops/argo-cd/argocd-cm.yaml", &argo_cd_settings());
    let targets = printed(&["rbac", "crontabs.example.com"]);
    settle("samples/targets.yaml", &format!("# restow rbac crontabs.example.com\n{targets}"));
}

/// Compares a file with what it is to be, or writes it.
fn settle(file: &str, expected: &str) {
    let path = manifests().join(file);
    if std::env::var_os("GENERATE").is_some() {
        fs::write(path, expected).unwrap();
    } else {
        let found = fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "manifests/{file} is stale: GENERATE=1 cargo test --test it generated");
    }
}

/// The definition as a template, so that `helm upgrade` upgrades it and `helm uninstall` can leave it.
fn crd_template(crd: &str) -> String {
    assert!(!crd.contains("{{"), "Helm would take a part of the definition for its own");
    let keep =
        "\n  {{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep\n  {{- end }}";
    let labels = "\n  labels:\n    {{- include \"restow.labels\" . | nindent 4 }}";
    let (head, rest) = crd.split_once("\n  labels:\n    app.kubernetes.io/name: restow").expect("the labels");
    format!("{{{{- if .Values.crds.enabled }}}}\n{head}{keep}{labels}{rest}{{{{- end }}}}\n")
}

/// The alerts as an object of the Prometheus operator.
fn prometheus_rule(rules: &str) -> String {
    let (comment, groups) = rules.split_once('\n').expect("a comment");
    let groups = groups.trim_end().replace('\n', "\n  ");
    format!(
        "{comment}\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: restow\n  \
         namespace: restow-system\n  labels:\n    app.kubernetes.io/name: restow\nspec:\n  {groups}\n"
    )
}

/// What Argo CD's own ConfigMap is to have besides.
fn argo_cd_settings() -> String {
    let check = fs::read_to_string(manifests().join("gitops/argo-cd/health.lua")).unwrap();
    let check = check.trim_end().replace('\n', "\n    ");
    format!(
        "# Made of health.lua. Part of Argo CD's settings: merge it into the ConfigMap that is there.\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: argocd-cm\n  namespace: argocd\n  labels:\n    \
         app.kubernetes.io/name: argocd-cm\n    app.kubernetes.io/part-of: argocd\ndata:\n  \
         resource.customizations.health.restow.dev_StorageMigration: |\n    {check}\n"
    )
}

fn chart_readme() -> String {
    let chart = manifests().join("charts/restow");
    let readme = fs::read_to_string(chart.join("README.md")).unwrap();
    let (head, rest) = readme.split_once(TABLE_BEGINS).expect("where the table begins");
    let (_, tail) = rest.split_once(TABLE_ENDS).expect("where the table ends");
    let table = values_table::table(&fs::read_to_string(chart.join("values.yaml")).unwrap());
    format!("{head}{TABLE_BEGINS}\n{table}\n{TABLE_ENDS}{tail}")
}

fn printed(args: &[&str]) -> String {
    let output = Command::new(BINARY).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
