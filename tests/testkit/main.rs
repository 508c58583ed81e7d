//! Needs a Docker daemon with the image, or Java and ZooKeeper; what is missing is skipped, under `CI` it fails.

mod cleanup;
mod lifecycle;
mod selection;
mod sessions;
mod support;
