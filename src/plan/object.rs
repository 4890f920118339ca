//! An object as a list shows it, and a page of them.

/// What restow keeps of an object while it is to be visited. Its body never passes through restow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its namespace; `None` for a cluster-scoped one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion, compared for equality only.
    pub resource_version: String,
    /// Whether it has entries in `managedFields`.
    pub is_managed: bool,
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects of it.
    pub objects: Vec<Object>,
    /// The token for the next page; `None` at the end.
    pub continue_token: Option<String>,
    /// How many objects follow, by the server's estimate.
    pub remaining: Option<u64>,
}

/// Which page to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The token of the page before; `None` for the first one.
    pub continue_token: Option<String>,
    /// How many objects to ask for.
    pub limit: u32,
}

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
