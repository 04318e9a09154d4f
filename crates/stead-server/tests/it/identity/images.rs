//! Images of projects and of the platform.

use serde_json::{Value, json};

use super::{ask, close, get, import, member, project, token};
use crate::harness::{TOKEN, TestServer};

#[tokio::test]
async fn t2_images_belong_to_a_project_or_to_the_platform() {
    let server = TestServer::start_with_boxes().await;
    project(&server, "web").await;
    project(&server, "data").await;
    let (web, data) = (member(&server, "developer", "web").await, member(&server, "owner", "data").await);
    let viewer = member(&server, "viewer", "web").await;
    let path = "/api/v1/images/tools";
    let shown = async |token: &str| {
        let answer = get(&server, token, path).await;
        if answer.status == 200 { answer.json()["project"].clone() } else { json!(answer.status) }
    };
    let removed = async |token: &str| ask(&server, token, "DELETE", path, Value::Null).await;
    // A platform's name may look like the key of a project's.
    import(&server, TOKEN, "/api/v1/images/web/tools", "of the platform").await;
    assert_eq!(import(&server, &web, path, "of web").await["project"], "web");
    let missing = get(&server, &data, "/api/v1/images/toolx").await;
    let theirs = get(&server, &data, path).await;
    assert_eq!((theirs.status, theirs.body), (404, missing.body.replace("toolx", "tools")));
    assert_eq!((shown(&web).await, shown(&viewer).await), (json!("web"), json!("web")));
    assert_eq!(removed(&data).await.status, 404);
    assert_eq!(removed(&viewer).await.status, 403);
    let refused = server.ask("PUT", path).token(Some(&viewer)).bytes(b"x".to_vec()).send().await;
    assert_eq!(refused.status, 403, "{refused:?}");
    // The platform's is for all who have no own one, and only an administrator changes it.
    import(&server, TOKEN, path, "of the platform").await;
    assert_eq!((shown(&web).await, shown(&data).await), (json!("web"), Value::Null));
    let refused = removed(&data).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"), "{refused:?}");
    let made = token(&server, json!({"name": "everywhere", "role": "developer"})).await;
    assert_eq!(removed(made["token"].as_str().unwrap()).await.status, 403);
    let names = async |token: &str| {
        let listed = get(&server, token, "/api/v1/images").await.json();
        let items = listed["items"].as_array().unwrap().iter();
        items.map(|image| format!("{} {}", image["name"], image["project"])).collect::<Vec<_>>()
    };
    assert_eq!(names(&web).await, [r#""tools" "web""#, r#""web/tools" null"#]);
    assert_eq!(names(&data).await, [r#""tools" null"#, r#""web/tools" null"#]);
    assert_eq!(names(TOKEN).await, names(&data).await);
    // An administrator names the project.
    let of_web = server.get("/api/v1/images/tools?project=web").await.json();
    assert_eq!(of_web["project"], "web");
    import(&server, TOKEN, "/api/v1/images/tools?project=data", "of data").await;
    assert_eq!(shown(&data).await, "data");
    let elsewhere = ask(&server, &web, "DELETE", "/api/v1/images/tools?project=data", Value::Null).await;
    assert_eq!(elsewhere.status, 404, "{elsewhere:?}");
    let nowhere = server.ask("PUT", "/api/v1/images/tools?project=none").bytes(b"x".to_vec()).send().await;
    assert_eq!(nowhere.status, 404, "{nowhere:?}");
    // The own one goes, and the platform's is there again.
    assert_eq!(removed(&web).await.status, 204);
    assert_eq!(shown(&web).await, Value::Null);
    let changes = server.get("/api/v1/audit?type=admin_change&project=web").await.json();
    let about = |change: &&Value| change["detail"]["what"] == "image" && change["detail"]["id"] == "tools";
    assert_eq!(changes["items"].as_array().unwrap().iter().filter(about).count(), 2, "{changes}");

    // A deleted project has no images.
    let deleted = server.ask("DELETE", "/api/v1/projects/data").send().await;
    assert!(deleted.status < 300, "{deleted:?}");
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while server.get("/api/v1/projects/data").await.status != 404 {
        assert!(tokio::time::Instant::now() < until, "the project is not deleted");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(server.get("/api/v1/images/tools?project=data").await.json()["project"], Value::Null);
}

#[tokio::test]
async fn t2_a_box_is_made_from_no_image_of_another_project() {
    let server = TestServer::start_with_boxes().await;
    project(&server, "web").await;
    project(&server, "data").await;
    let (web, data) = (member(&server, "developer", "web").await, member(&server, "developer", "data").await);
    let digest = import(&server, &web, "/api/v1/images/tools", "of web").await["digest"].clone();
    let pinned = format!("tools@{}", digest.as_str().unwrap());
    // The failure of a session whose agent type names this image.
    let failure = async |token: &str, id: &str, image: &str| {
        let workspace = json!({"enabled": true, "provider": "native", "require_workspace": true, "base_image": image});
        let declared =
            ask(&server, token, "POST", "/api/v1/agent-types", json!({"id": id, "workspace": workspace})).await;
        assert_eq!(declared.status, 201, "{declared:?}");
        let wanted = json!({"agent_type": id});
        let plan = ask(&server, token, "POST", "/api/v1/sessions:plan", wanted.clone()).await;
        let session = ask(&server, token, "POST", "/api/v1/sessions?wait=60", wanted).await.json();
        let failure = session["workspace"]["failures"][0].clone();
        close(&server, session["id"].as_str().unwrap()).await;
        (plan.status, failure["code"].clone(), failure["message"].to_string().replace(image, "IMAGE"))
    };
    let missing = failure(&data, "a", "toolx").await;
    assert_eq!(missing.1, "image_missing", "{missing:?}");
    assert_eq!(failure(&data, "b", "tools").await, missing);
    assert_eq!(failure(&data, "c", &pinned).await, missing);
    // Control: the image is found for its own project. It has no programs, so no box starts.
    for (id, image) in [("a", "tools"), ("b", &pinned)] {
        assert_ne!(failure(&web, id, image).await.1, missing.1);
    }
}
