import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Answer, InputRequest } from '../../src/ask.ts';
import { sendAnswer } from './api.ts';

const WORDS = {
  approval: { title: 'Your approval is needed', yes: 'Approve', no: 'Reject' },
  question: { title: 'A question for you', yes: 'Answer', no: 'Decline' },
  auth: { title: 'A sign-in is needed', yes: 'Done', no: 'Decline' },
} as const;

/**
 * A card for one question to a person. It is drawn from the log, so it is there again after a
 * reload or a restart, on any replica, until somebody has answered.
 */
export function Waiting({
  request,
  task,
}: {
  readonly request: InputRequest;
  readonly task: string;
}): VNode {
  const { kind, data, schema } = request;
  const asksText = kind === 'question' && schema === undefined;
  const offered = asksText ? '' : JSON.stringify(data ?? (schema && blank(schema)), null, 2);
  const [text, setText] = useState(offered ?? '');
  const [sent, setSent] = useState(false);
  const [error, setError] = useState('');
  const words = WORDS[kind];
  const say = async (action: Answer['action']): Promise<void> => {
    setError('');
    try {
      const content = action === 'accept' ? contentOf(text, asksText, offered, schema) : {};
      setSent(true);
      await sendAnswer(task, { id: request.id, action, ...content });
    } catch (reason) {
      setSent(false);
      setError(reason instanceof Error ? reason.message : String(reason));
    }
  };
  return (
    <form class="waiting" aria-label={words.title} onSubmit={(event) => event.preventDefault()}>
      <h2>{words.title}</h2>
      {request.message && <p>{request.message}</p>}
      {(asksText || offered !== undefined) && (
        <textarea
          aria-label={asksText ? 'Your answer' : 'What is decided about; you may edit it'}
          rows={asksText ? 2 : Math.min(10, text.split('\n').length + 1)}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      )}
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      <span class="buttons">
        <button type="button" class="primary" disabled={sent} onClick={() => void say('accept')}>
          {kind === 'approval' && text !== (offered ?? '') ? 'Approve as edited' : words.yes}
        </button>
        <button type="button" disabled={sent} onClick={() => void say('decline')}>
          {words.no}
        </button>
      </span>
    </form>
  );
}

/** What goes with a yes: the words, or the JSON where it was edited or is asked for. */
function contentOf(
  text: string,
  asksText: boolean,
  offered: string | undefined,
  schema: unknown,
): { readonly content?: unknown } {
  if (asksText) return { content: text };
  if (offered === undefined || (text === offered && schema === undefined)) return {};
  try {
    return { content: JSON.parse(text) as unknown };
  } catch {
    throw new Error('The edited text is not JSON: mend it, or reject.');
  }
}

/** The properties of a schema, each with its default or an empty value, to be filled in. */
function blank(schema: InputRequest['schema']): unknown {
  const properties = (schema?.['properties'] ?? {}) as Record<string, Record<string, unknown>>;
  const empty: Readonly<Record<string, unknown>> = { boolean: false, number: 0, integer: 0 };
  return Object.fromEntries(
    Object.entries(properties).map(([name, { default: given, enum: choices, type }]) => [
      name,
      given ?? (Array.isArray(choices) ? (choices[0] as unknown) : (empty[String(type)] ?? '')),
    ]),
  );
}
