import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Snapshot } from '../../../src/event/types.ts';
import { replyTo } from '../api/requests.ts';
import styles from './reply-form.module.css';

/** A further message in the conversation of a task that has ended; it is a new task. */
export function ReplyForm({
  snapshot,
  onError,
}: {
  readonly snapshot: Snapshot;
  readonly onError: (error: unknown) => void;
}): VNode {
  const [text, setText] = useState('');
  const send = async (): Promise<void> => {
    try {
      location.hash = (await replyTo(snapshot, text)).task;
    } catch (error) {
      onError(error);
    }
  };
  return (
    <form
      class={styles['form']}
      aria-label="Reply"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <input
        type="text"
        aria-label="Reply in this conversation"
        placeholder="Reply in this conversation"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" disabled={text.trim() === ''}>
        Send
      </button>
    </form>
  );
}
