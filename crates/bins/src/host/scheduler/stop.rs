//! The word to stop, for everything that runs beside the loop.

use std::sync::Arc;

use tokio::sync::watch;

/// Says stop to all of its clones.
#[derive(Clone, Debug)]
pub struct Stop {
    word: Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { word: Arc::new(watch::Sender::new(false)) }
    }
}

impl Stop {
    /// Says it.
    pub fn stop(&self) {
        self.word.send_replace(true);
    }

    /// Waits for it.
    pub async fn stopped(&self) {
        let mut heard = self.word.subscribe();
        // The sender lives as long as this does, so the wait ends with the word only.
        drop(heard.wait_for(|said| *said).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_clones_hear_it_also_those_who_ask_late() {
        let stop = Stop::default();
        let other = stop.clone();
        let waiting = tokio::spawn(async move { other.stopped().await });
        stop.stop();
        waiting.await.unwrap();
        stop.stopped().await;
    }
}
