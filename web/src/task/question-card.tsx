import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Answer, InputRequest } from '../../../src/ask.ts';
import { Refused } from '../api/requests.ts';
import controls from '../ui/controls.module.css';
import { formContent, draftOf, FormFields, schemaFields, type Field } from '../ui/form-fields.tsx';
import styles from './question-card.module.css';

const CARD_LABELS = {
  approval: { title: 'Approval required', yes: 'Approve', no: 'Reject' },
  question: { title: 'Question for you', yes: 'Answer', no: 'Decline' },
  auth: { title: 'Sign-in required', yes: 'Done', no: 'Decline' },
} as const;

/** The input of a card: fields, text, JSON, or nothing but the two buttons. */
interface Editor {
  readonly view?: VNode;
  readonly edited: boolean;
  /** The content of an accepted answer; throws an error that the card shows. */
  readonly read: () => { readonly content?: unknown };
}

interface QuestionProps {
  readonly request: InputRequest;
  /** Sends the answer; rejects with what the card, or the page, shows. */
  readonly send: (answer: Answer) => Promise<unknown>;
  /** Who gets the answer; `agent` by default. */
  readonly asker?: string;
  /** Reports outside the card, which disappears when the log has an answer. */
  readonly onError: (error: unknown) => void;
}

/**
 * A card for one question to a person. It is drawn from the log, so it appears again after a reload
 * or a restart, on any replica, until the question is answered.
 */
export function QuestionCard(props: QuestionProps): VNode {
  const fields = schemaFields(props.request.schema);
  return fields ? <InFields {...props} fields={fields} /> : <InText {...props} />;
}

const InFields = ({
  fields,
  ...props
}: QuestionProps & { readonly fields: readonly Field[] }): VNode => (
  <Card {...props} editor={useFields(props.request, fields)} />
);

const InText = (props: QuestionProps): VNode => <Card {...props} editor={useText(props.request)} />;

function Card({
  request,
  send: deliver,
  asker = 'agent',
  onError,
  editor,
}: QuestionProps & { readonly editor: Editor }): VNode {
  const [sent, setSent] = useState(false);
  const [error, setError] = useState('');
  const labels = CARD_LABELS[request.kind];
  const send = async (action: Answer['action']): Promise<void> => {
    setError('');
    try {
      const content = action === 'accept' ? editor.read() : {};
      setSent(true);
      await deliver({ id: request.id, action, ...content });
    } catch (reason) {
      // Another person, or another tab, answered first. The card disappears, so the page reports
      // it.
      if (reason instanceof Refused && reason.code === 'conflict')
        return onError(new Error(`Already answered; your answer was not used. ${reason.message}`));
      setSent(false);
      setError(reason instanceof Error ? reason.message : String(reason));
    }
  };
  return (
    <form
      class={styles['card']}
      data-part="question"
      onSubmit={(event) => {
        event.preventDefault();
        void send('accept');
      }}
      onKeyDown={(event) => {
        const isShort = request.kind === 'question' && request.schema === undefined;
        if (event.key !== 'Enter' || event.shiftKey || sent) return;
        if (!(event.ctrlKey || event.metaKey || (isShort && isTextInput(event.target)))) return;
        event.preventDefault();
        void send('accept');
      }}
    >
      <h2>{labels.title}</h2>
      {request.message && <p>{request.message}</p>}
      {editor.view}
      {error && (
        <p class={controls['error']} role="alert">
          {error}
        </p>
      )}
      <p class={styles['effect']}>{effectText(request, editor.edited, asker)}</p>
      <span class={controls['group']}>
        <button type="submit" class={controls['primary']} disabled={sent} formNoValidate>
          {request.kind === 'approval' && editor.edited ? 'Approve as edited' : labels.yes}
        </button>
        <button type="button" disabled={sent} onClick={() => void send('decline')}>
          {labels.no}
        </button>
      </span>
    </form>
  );
}

const isTextInput = (target: EventTarget | null): boolean =>
  target instanceof HTMLTextAreaElement || target instanceof HTMLInputElement;

/** What happens after the answer, so that a person knows before pressing a button. */
function effectText({ kind }: InputRequest, edited: boolean, asker: string): string {
  if (kind === 'question') return `The ${asker} gets your answer and continues. Enter sends it.`;
  if (kind === 'auth') return `The ${asker} continues when you have signed in.`;
  return edited
    ? `Approve: the ${asker} continues with your edited data. Reject: it learns that you refused.`
    : `Approve: the ${asker} continues with this data. Reject: it learns that you refused.`;
}

/** One field for each property of a schema of simple properties. */
function useFields({ schema = {}, data }: InputRequest, fields: readonly Field[]): Editor {
  const [offered] = useState(() => draftOf(fields, schema, data));
  const [draft, setDraft] = useState(offered);
  return {
    view: <FormFields fields={fields} draft={draft} onChange={setDraft} />,
    edited: fields.some(({ name }) => draft[name] !== offered[name]),
    read: () => ({ content: formContent(fields, draft) }),
  };
}

/** Text for a question without a schema, JSON where there is data to edit, else no input. */
function useText({ kind, data, schema }: InputRequest): Editor {
  const isText = kind === 'question' && schema === undefined;
  const json =
    data === undefined && schema === undefined ? undefined : JSON.stringify(data ?? {}, null, 2);
  const offered = isText ? '' : json;
  const [text, setText] = useState(offered ?? '');
  if (offered === undefined) return { edited: false, read: () => ({}) };
  return {
    view: (
      <textarea
        class={isText ? undefined : controls['code']}
        aria-label={isText ? 'Your answer' : 'Data of the request; you may edit it'}
        rows={isText ? 2 : Math.min(10, text.split('\n').length + 1)}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    ),
    edited: text !== offered,
    read() {
      if (isText) return { content: text };
      if (text === offered && schema === undefined) return {};
      try {
        return { content: JSON.parse(text) as unknown };
      } catch {
        throw new Error('Invalid JSON: fix it or reject.');
      }
    },
  };
}
