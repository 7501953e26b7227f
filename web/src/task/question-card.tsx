import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Answer, InputRequest } from '../../../src/ask.ts';
import { Refused, sendAnswer } from '../api.ts';
import { formContent, draftOf, FormFields, schemaFields, type Field } from '../ui/form-fields.tsx';

const WORDS = {
  approval: { title: 'Your approval is needed', yes: 'Approve', no: 'Reject' },
  question: { title: 'A question for you', yes: 'Answer', no: 'Decline' },
  auth: { title: 'A sign-in is needed', yes: 'Done', no: 'Decline' },
} as const;

/** How a person answers: in fields, in words, as JSON, or only with yes and no. */
interface Editor {
  readonly view?: VNode;
  readonly edited: boolean;
  /** What goes with a yes; throws, in words, what is wrong with it. */
  readonly read: () => { readonly content?: unknown };
}

interface QuestionProps {
  readonly request: InputRequest;
  readonly task: string;
  /** Shown beside the card, which is gone once the log has an answer. */
  readonly onError: (error: unknown) => void;
}

/**
 * A card for one question to a person. It is drawn from the log, so it is there again after a
 * reload or a restart, on any replica, until somebody has answered.
 */
export function QuestionCard(asked: QuestionProps): VNode {
  const fields = schemaFields(asked.request.schema);
  return fields ? <InFields {...asked} fields={fields} /> : <InText {...asked} />;
}

const InFields = ({
  fields,
  ...asked
}: QuestionProps & { readonly fields: readonly Field[] }): VNode => (
  <Card {...asked} editor={useFields(asked.request, fields)} />
);

const InText = (asked: QuestionProps): VNode => <Card {...asked} editor={useText(asked.request)} />;

function Card({
  request,
  task,
  onError,
  editor,
}: QuestionProps & { readonly editor: Editor }): VNode {
  const [sent, setSent] = useState(false);
  const [error, setError] = useState('');
  const words = WORDS[request.kind];
  const say = async (action: Answer['action']): Promise<void> => {
    setError('');
    try {
      const content = action === 'accept' ? editor.read() : {};
      setSent(true);
      await sendAnswer(task, { id: request.id, action, ...content });
    } catch (reason) {
      // Another person, or another tab, was faster: what was pressed here did not count.
      if (reason instanceof Refused && reason.code === 'conflict')
        return onError(new Error(`Already answered; your answer did not count. ${reason.message}`));
      setSent(false);
      setError(reason instanceof Error ? reason.message : String(reason));
    }
  };
  return (
    <form
      class="waiting"
      aria-label={words.title}
      onSubmit={(event) => {
        event.preventDefault();
        void say('accept');
      }}
    >
      <h2>{words.title}</h2>
      {request.message && <p>{request.message}</p>}
      {editor.view}
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      <span class="buttons">
        <button type="submit" class="primary" disabled={sent} formNoValidate>
          {request.kind === 'approval' && editor.edited ? 'Approve as edited' : words.yes}
        </button>
        <button type="button" disabled={sent} onClick={() => void say('decline')}>
          {words.no}
        </button>
      </span>
    </form>
  );
}

/** A schema of simple properties: one field each. */
function useFields({ schema = {}, data }: InputRequest, fields: readonly Field[]): Editor {
  const [offered] = useState(() => draftOf(fields, schema, data));
  const [draft, setDraft] = useState(offered);
  return {
    view: <FormFields fields={fields} draft={draft} onChange={setDraft} />,
    edited: fields.some(({ name }) => draft[name] !== offered[name]),
    read: () => ({ content: formContent(fields, draft) }),
  };
}

/** Words where a question has no shape, JSON where there is something to edit, else nothing. */
function useText({ kind, data, schema }: InputRequest): Editor {
  const asksWords = kind === 'question' && schema === undefined;
  const json =
    data === undefined && schema === undefined ? undefined : JSON.stringify(data ?? {}, null, 2);
  const offered = asksWords ? '' : json;
  const [text, setText] = useState(offered ?? '');
  if (offered === undefined) return { edited: false, read: () => ({}) };
  return {
    view: (
      <textarea
        class={asksWords ? '' : 'code'}
        aria-label={asksWords ? 'Your answer' : 'What is decided about; you may edit it'}
        rows={asksWords ? 2 : Math.min(10, text.split('\n').length + 1)}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    ),
    edited: text !== offered,
    read() {
      if (asksWords) return { content: text };
      if (text === offered && schema === undefined) return {};
      try {
        return { content: JSON.parse(text) as unknown };
      } catch {
        throw new Error('The edited text is not JSON: mend it, or reject.');
      }
    },
  };
}
