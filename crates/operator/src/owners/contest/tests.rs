use serde_json::{Value, json};

use super::*;

const ARGO: &str = "argocd-controller";

/// A Deployment of which 5 replicas are wanted by us and 2 by others, and the contest for its size.
struct Fleet {
    contest: Contest,
    uid: &'static str,
    generation: i64,
    revision: i64,
    parent: bool,
    size: u32,
    holders: Vec<&'static str>,
    now: Duration,
}

impl Fleet {
    fn new() -> Self {
        let contest = Contest::default();
        Self { contest, uid: "u", generation: 1, revision: 1, parent: false, size: 2, holders: vec!["kubectl-create"], now: Duration::ZERO }
    }

    fn now(&self) -> Time {
        Time::default().after(self.now)
    }

    fn target(&self) -> Target {
        let field = |manager: &&str| json!({"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let owners: Vec<Value> = self
            .parent
            .then(|| json!({"apiVersion": "x/v1", "kind": "Parent", "name": "p", "uid": "p", "controller": true}))
            .into_iter()
            .collect();
        let metadata = json!({"name": "fleet", "uid": self.uid, "generation": self.generation, "ownerReferences": owners,
            "annotations": {"deployment.kubernetes.io/revision": self.revision.to_string()},
            "managedFields": self.holders.iter().map(field).collect::<Vec<_>>()});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": self.size}});
        Target::of(&serde_json::from_value(object).unwrap())
    }

    /// Time passes, and we look.
    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self.contest.look(self.now(), &self.target(), Replicas::new(self.size));
        self
    }

    /// We write.
    fn write(&mut self, size: u32) -> &mut Self {
        let before = self.target();
        (self.size, self.generation, self.holders) = (size, self.generation + 1, vec!["llmscaler"]);
        self.contest.wrote(self.now(), &before, Replicas::new(size), self.generation);
        self
    }

    /// Somebody else does.
    fn set_by(&mut self, who: &'static str, size: u32) -> &mut Self {
        (self.size, self.generation, self.holders) = (size, self.generation + 1, vec![who]);
        self
    }

    fn owner(&self) -> Option<&str> {
        self.contest.taker().map(|taker| taker.manager.as_str())
    }

    /// We write, `who` takes it back, and we look 15 s later, so often.
    fn tug(&mut self, who: &'static str, times: usize) -> &mut Self {
        for _ in 0..times {
            self.write(5).set_by(who, 2).after(15);
        }
        self
    }

    /// For how many minutes of silence the size is left alone.
    fn silence(&mut self) -> u64 {
        let minutes = (0..10_000).find(|_| self.owner().is_none() || self.after(60).owner().is_none());
        minutes.unwrap() + 1
    }
}

#[test]
fn who_takes_back_three_writes_in_a_row_owns_the_size() {
    let mut fleet = Fleet::new();
    assert_eq!(fleet.after(15).tug(ARGO, 2).owner(), None);
    assert_eq!(fleet.tug(ARGO, 1).owner(), Some(ARGO));
}

#[test]
fn edits_of_people_are_edits() {
    let mut fleet = Fleet::new();
    // The first write takes over from whoever created it.
    fleet.after(0).write(5).after(15);
    fleet.set_by("kubectl", 3).after(15);
    assert_eq!(fleet.owner(), None);
    // Without a write of ours in between nothing is taken back, however often it is changed.
    for size in [4, 6, 3, 2, 7] {
        fleet.set_by("kubectl", size).after(15);
    }
    assert_eq!(fleet.owner(), None);
    // Different people.
    for who in ["kubectl", "kubectl-edit", "helm", "kubectl", "manager"] {
        fleet.tug(who, 1);
    }
    assert_eq!(fleet.owner(), None);
    // Hours lie between them.
    for _ in 0..5 {
        fleet.tug("kubectl", 1).after(3600);
    }
    assert_eq!(fleet.owner(), None);
}

#[test]
fn a_write_that_stood_for_long_was_not_taken_back() {
    let mut fleet = Fleet::new();
    for _ in 0..5 {
        fleet.write(5).after(901).set_by(ARGO, 2).after(15);
    }
    assert_eq!(fleet.owner(), None, "a quarter of an hour later each time");
    for _ in 0..3 {
        fleet.write(5).after(585).set_by(ARGO, 2).after(15);
    }
    assert_eq!(fleet.owner(), Some(ARGO), "each ten minutes");
}

#[test]
fn several_writes_between_two_rounds_of_a_tool_do_not_hide_it() {
    let mut fleet = Fleet::new();
    for _ in 0..3 {
        fleet.write(4).after(15).write(5).after(15).write(6).after(570).set_by("kustomize-controller", 2).after(15);
    }
    assert_eq!(fleet.owner(), Some("kustomize-controller"));
}

#[test]
fn rollouts_that_set_the_size_by_the_way_are_rollouts() {
    let mut fleet = Fleet::new();
    for _ in 0..5 {
        fleet.write(5);
        fleet.revision += 1;
        fleet.set_by("helm", 2).after(60);
    }
    assert_eq!(fleet.owner(), None);
}

#[test]
fn what_a_late_watch_shows_was_there_before() {
    let mut fleet = Fleet::new();
    for _ in 0..5 {
        let before = fleet.set_by("kubectl", 2).target();
        fleet.write(5);
        fleet.contest.look(fleet.now(), &before, Replicas::new(2));
    }
    assert_eq!(fleet.owner(), None);
}

#[test]
fn an_agreement_is_no_contest() {
    let mut fleet = Fleet::new();
    for _ in 0..5 {
        fleet.write(5).set_by(ARGO, 5).after(15);
    }
    assert_eq!(fleet.owner(), None);
    for _ in 0..3 {
        fleet.write(5);
        (fleet.size, fleet.generation, fleet.holders) = (2, fleet.generation + 1, vec!["llmscaler", ARGO]);
        fleet.after(15);
    }
    assert_eq!(fleet.owner(), Some(ARGO), "the field has two managers, and the size is theirs");
}

#[test]
fn who_wrote_without_a_name_is_known_by_the_size_alone() {
    let mut fleet = Fleet::new();
    for _ in 0..3 {
        fleet.write(5);
        (fleet.size, fleet.generation, fleet.holders) = (2, fleet.generation + 1, vec![]);
        fleet.after(15);
    }
    assert_eq!(fleet.owner(), Some(""));
    assert_eq!(fleet.silence(), 30, "what does not show cannot be seen to go");
}

#[test]
fn a_controller_that_takes_its_targets_size_back_once_owns_it() {
    let mut fleet = Fleet { parent: true, ..Fleet::new() };
    assert_eq!(fleet.tug("kubectl", 1).owner(), None, "a person's edit");
    assert_eq!(fleet.tug("ray-operator", 1).owner(), Some("ray-operator"));
}

#[test]
fn the_size_is_left_alone_until_it_has_been_quiet_ever_longer() {
    let mut fleet = Fleet::new();
    assert_eq!(fleet.tug(ARGO, 3).silence(), 30);
    let mut waits = vec![];
    for _ in 0..6 {
        // One write is enough to see.
        fleet.tug(ARGO, 1);
        waits.push(fleet.silence());
    }
    assert_eq!(waits, [60, 120, 240, 480, 480, 480]);
    // A trial that goes well for an hour ends the matter.
    fleet.write(5).after(3601);
    assert_eq!(fleet.tug(ARGO, 2).owner(), None);
    assert_eq!(fleet.tug(ARGO, 1).silence(), 30);
}

#[test]
fn whoever_is_at_it_still_is_not_quiet() {
    let mut fleet = Fleet::new();
    fleet.tug(ARGO, 3);
    for size in (2..7).cycle().take(20) {
        assert_eq!(fleet.set_by(ARGO, size).after(1200).owner(), Some(ARGO));
    }
}

#[test]
fn who_lets_the_field_go_does_not_own_it() {
    let mut fleet = Fleet::new();
    fleet.tug(ARGO, 3);
    // A person's edit, which is taken back.
    fleet.set_by("kubectl", 4).after(15).after(15);
    assert_eq!(fleet.set_by(ARGO, 2).after(15).owner(), Some(ARGO));
    // The manifest has no replicas any more.
    fleet.holders.clear();
    assert_eq!(fleet.after(15).after(45).owner(), Some(ARGO));
    assert_eq!(fleet.after(15).owner(), None);
    assert_eq!(fleet.tug("kubectl", 1).owner(), None);
    assert_eq!(fleet.tug(ARGO, 1).owner(), Some(ARGO), "it came back");
}

#[test]
fn another_object_of_the_same_name_begins_anew() {
    let mut fleet = Fleet::new();
    fleet.tug(ARGO, 3);
    fleet.uid = "v";
    assert_eq!(fleet.after(15).owner(), None);
    assert_eq!(fleet.tug(ARGO, 2).owner(), None);
}

#[test]
fn a_restart_goes_on_from_what_the_status_says() {
    for manager in [ARGO, ""] {
        let taker = Taker { manager: manager.to_owned() };
        let message = format!("{} of Deployment fleet back; keep it from that", taker.words());
        let told = Taker::told_of(&message).unwrap();
        assert_eq!(told, taker);
        let mut fleet = Fleet { contest: Contest::resume(told, Time::default()), holders: vec![manager], ..Fleet::new() };
        assert_eq!(fleet.after(15).owner(), Some(manager));
        assert_eq!(fleet.silence(), 30);
    }
    assert_eq!(Taker::told_of("LLMScaler two scales Deployment fleet too; delete one of them"), None);
}
