import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { Answer, Ask, InputRequest } from '../../../src/ask.ts';
import { asObject, asObjects, type JsonObject } from '../../../src/json.ts';
import { QuestionCard } from '../task/question-card.tsx';
import controls from '../ui/controls.module.css';
import styles from './tools-page.module.css';

interface OpenQuestion {
  readonly number: number;
  readonly request: InputRequest;
  readonly answer: (answer: Answer) => void;
}

/** Questions of a tool server to the user. */
export interface Asking {
  /** Shows the question and resolves with the answer of the user. */
  readonly ask: Ask;
  /** The cards of the open questions. */
  readonly view: VNode;
}

/** Shows the questions that a tool server asks during a request, until they are answered. */
export function useAsking(onError: (error: unknown) => void): Asking {
  const [open, setOpen] = useState<readonly OpenQuestion[]>([]);
  const count = useRef(0);
  const ask: Ask = (request, { signal } = {}) =>
    new Promise((resolve, reject) => {
      const number = (count.current += 1);
      const close = (): void => setOpen((all) => all.filter((each) => each.number !== number));
      const answer = (given: Answer): void => {
        close();
        resolve(given);
      };
      signal?.addEventListener('abort', () => {
        close();
        reject(signal.reason as Error);
      });
      setOpen((all) => [...all, { number, request, answer }]);
    });
  return {
    ask,
    view: (
      <>
        {open.map(({ number, request, answer }) => {
          const { method, params } = asObject(request.data);
          const send = async (given: Answer): Promise<void> => answer(given);
          return method === 'sampling/createMessage' ? (
            <SamplingCard key={number} id={request.id} params={asObject(params)} send={send} />
          ) : (
            <QuestionCard
              key={number}
              // The data is the request itself; the answer is made of the schema alone.
              request={{ ...request, data: undefined }}
              send={send}
              asker="tool"
              onError={onError}
            />
          );
        })}
      </>
    ),
  };
}

/** A request for the message of a model: the user is the model. */
function SamplingCard({
  id,
  params,
  send,
}: {
  readonly id: string;
  readonly params: JsonObject;
  readonly send: (answer: Answer) => Promise<void>;
}): VNode {
  const [text, setText] = useState('');
  const [model, setModel] = useState('user');
  const { systemPrompt, maxTokens } = params;
  return (
    <form
      class={styles['wish']}
      aria-label="Request for the message of a model"
      data-part="sampling"
      onSubmit={(event) => {
        event.preventDefault();
        const content = { type: 'text', text };
        const message = { role: 'assistant', content, model, stopReason: 'endTurn' };
        void send({ id, action: 'accept', content: message });
      }}
    >
      <h2>The server requests a message of a model</h2>
      {typeof systemPrompt === 'string' && <pre>{systemPrompt}</pre>}
      {asObjects(params['messages']).map((message, i) => (
        <div key={i}>
          <b>{String(message['role'])}</b>
          <pre>{textOf(message['content'])}</pre>
        </div>
      ))}
      {typeof maxTokens === 'number' && <p class={controls['soft']}>At most {maxTokens} tokens.</p>}
      <label>
        Message
        <textarea rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <label>
        Name of the model
        <input value={model} onInput={(event) => setModel(event.currentTarget.value)} />
      </label>
      <span class={controls['group']}>
        <button type="submit" class={controls['primary']} disabled={text === ''}>
          Send
        </button>
        <button type="button" onClick={() => void send({ id, action: 'decline' })}>
          Decline
        </button>
      </span>
    </form>
  );
}

function textOf(content: unknown): string {
  const { text } = asObject(content);
  return typeof text === 'string' ? text : JSON.stringify(content, null, 2);
}
