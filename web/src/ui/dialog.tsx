/** Dialogs: the browser's own element, which keeps the focus inside and closes on Escape. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button, Failure } from "./basics";

export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide" : ""} aria-label={title} onClose={onClose}>
      <header>
        <h2>{title}</h2>
        <Button kind="quiet" label="Close" onClick={onClose}>
          ✕
        </Button>
      </header>
      <div class="body">{children}</div>
    </dialog>
  );
}

export interface Question {
  title: string;
  text: ComponentChildren;
  action: string;
  danger?: boolean;
  run: () => Promise<unknown>;
}

/** Asks before something that cannot be undone, and shows why it failed. */
export function Confirm({ question, onClose }: { question: Question; onClose: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  return (
    <Dialog title={question.title} onClose={onClose}>
      <div class="stack">
        <div>{question.text}</div>
        {error && <Failure error={error} />}
        <div class="row end">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind={question.danger === false ? "primary" : "danger"}
            disabled={busy}
            onClick={() => {
              setBusy(true);
              question.run().then(onClose, (failure: Error) => {
                setError(failure);
                setBusy(false);
              });
            }}
          >
            {question.action}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

/** Returns a function that asks a question, and the element that shows it. */
export function useConfirm(): [(question: Question) => void, ComponentChildren] {
  const [question, setQuestion] = useState<Question>();
  return [setQuestion, question && <Confirm question={question} onClose={() => setQuestion(undefined)} />];
}
