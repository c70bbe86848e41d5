//! A name of a session that is taken, given up and taken again, by several at once.

use super::*;

/// PID 1s of sandboxes that are made, below us.
fn standing() -> usize {
    let all = host::descendants(std::process::id()).into_iter();
    all.filter(|pid| {
        host::inner_pid(*pid) == Some(1) && host::status(*pid, "Name").as_deref() == Some("sandbox-init")
    })
    .count()
}

#[test]
fn a_name_that_is_taken_again_hides_no_sandbox() {
    with_plane(ControlSettings::default(), |world| async move {
        let plane = world.start().await;
        let me = caller("me");
        let spec = SessionSpec { languages: vec!["sh".into()], ..SessionSpec::default() };
        let new = NewSession { id: Some("crowded".into()), spec, ..NewSession::default() };
        for round in 0..25 {
            let comers = (0..4u64).map(|number| {
                let (plane, me, new) = (plane.clone(), me.clone(), new.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(number * 2)).await;
                    match plane.create_session(&me, new, None).await {
                        Ok(_) | Err(ControlError::Store(_)) => {}
                        Err(other) => panic!("round {round}: {other:?}"),
                    }
                })
            });
            let goers = (0..8u64).map(|number| {
                let (plane, me) = (plane.clone(), me.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(number)).await;
                    let began = Instant::now();
                    let gone = plane.purge_session(&me, "crowded").await;
                    assert!(began.elapsed() < Duration::from_secs(4), "it waits for another one: {gone:?}");
                })
            });
            let all: Vec<_> = comers.chain(goers).collect();
            for one in all {
                one.await.unwrap();
            }
        }
        let _ = plane.purge_session(&me, "crowded").await;
        assert!(plane.session(&me, "crowded").await.is_err());
        let patience = Instant::now() + PATIENCE;
        while standing() > 0 {
            assert!(Instant::now() < patience, "{} sandboxes of no session", standing());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        plane.end().await;
    });
}
