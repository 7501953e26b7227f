import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { asArray, asObject, asObjects, asString, type JsonObject } from '../../../src/json.ts';
import controls from '../ui/controls.module.css';
import { ArgumentsForm } from './arguments-form.tsx';
import { BlockView } from './content-view.tsx';
import { useAsking } from './server-questions.tsx';
import type { ToolConnection } from './tool-connection.ts';
import styles from './tools-page.module.css';

interface PanelProps {
  readonly connection: ToolConnection;
  readonly item: JsonObject;
  readonly onError: (error: unknown) => void;
}

/** One request of a panel: what it returned, why it failed, and the questions in between. */
function useRequest({ connection, onError }: PanelProps): {
  readonly result: JsonObject | undefined;
  readonly error: string;
  readonly isBusy: boolean;
  readonly questions: VNode;
  readonly send: (method: string, params: JsonObject) => void;
} {
  const [result, setResult] = useState<JsonObject>();
  const [error, setError] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [scope] = useState(() => new AbortController());
  const { ask, view } = useAsking(onError);
  useEffect(() => () => scope.abort(), []);
  const send = (method: string, params: JsonObject): void => {
    setBusy(true);
    setError('');
    connection
      .request(method, params, { ask, signal: scope.signal })
      .then(setResult, (reason: unknown) => {
        if (!scope.signal.aborted)
          setError(reason instanceof Error ? reason.message : String(reason));
      })
      .finally(() => setBusy(false));
  };
  return { result, error, isBusy, questions: view, send };
}

/** A resource, or a template: its variables are the arguments. */
export function ResourcePanel(props: PanelProps): VNode {
  const { item } = props;
  const { uri, uriTemplate, description, name } = item;
  const { result, error, isBusy, questions, send } = useRequest(props);
  const template = typeof uriTemplate === 'string' ? uriTemplate : '';
  const variables = variablesOf(template);
  const properties = Object.fromEntries(variables.map((each) => [each, { type: 'string' }]));
  return (
    <article class={styles['detail']} aria-label="Resource" data-part="resource">
      <h2>{asString(item['title'], asString(name, asString(uri)))}</h2>
      <p class={controls['soft']}>{String(uri ?? uriTemplate)}</p>
      {typeof description === 'string' && <p class={styles['text']}>{description}</p>}
      <ArgumentsForm
        label={`Read ${String(name ?? uri)}`}
        schema={{ type: 'object', properties, required: variables }}
        submit="Read"
        isBusy={isBusy}
        onSubmit={(args) =>
          send('resources/read', { uri: template === '' ? uri : expand(template, args) })
        }
      />
      {questions}
      {error && (
        <p class={controls['error']} role="alert">
          {error}
        </p>
      )}
      {result && (
        <section aria-label="Contents" data-part="resource-contents">
          {asObjects(result['contents']).map((part, i) => (
            <BlockView key={i} block={part} />
          ))}
        </section>
      )}
    </article>
  );
}

/** `{name}` and `{+path}` of a URI template (RFC 6570). */
const VARIABLE = /\{([+#./;?&]?)([\w.]+)\*?\}/g;

const variablesOf = (template: string): readonly string[] => [
  ...new Set(Array.from(template.matchAll(VARIABLE), ([, , name = '']) => name)),
];

const expand = (template: string, args: JsonObject): string =>
  template.replaceAll(VARIABLE, (_, operator: string, name: string) => {
    const value = asString(args[name]);
    return operator === '+' || operator === '#' ? encodeURI(value) : encodeURIComponent(value);
  });

/** A prompt and the messages that it makes. */
export function PromptPanel(props: PanelProps): VNode {
  const { item } = props;
  const name = String(item['name']);
  const { result, error, isBusy, questions, send } = useRequest(props);
  const declared = asArray(item['arguments']).map(asObject);
  const schema = {
    type: 'object',
    properties: Object.fromEntries(
      declared.map((each) => [
        String(each['name']),
        { type: 'string', title: each['title'], description: each['description'] },
      ]),
    ),
    required: declared.filter(({ required }) => required === true).map((each) => each['name']),
  };
  return (
    <article class={styles['detail']} aria-label={`Prompt ${name}`} data-part="prompt">
      <h2>{asString(item['title'], name)}</h2>
      {typeof item['description'] === 'string' && (
        <p class={styles['text']}>{item['description']}</p>
      )}
      <ArgumentsForm
        label={`Get ${name}`}
        schema={schema}
        submit="Get"
        isBusy={isBusy}
        onSubmit={(args) => send('prompts/get', { name, arguments: args })}
      />
      {questions}
      {error && (
        <p class={controls['error']} role="alert">
          {error}
        </p>
      )}
      {result && (
        <section aria-label="Messages" data-part="prompt-messages">
          {asObjects(result['messages']).map((message, i) => (
            <div key={i}>
              <b>{String(message['role'])}</b>
              <BlockView block={asObject(message['content'])} />
            </div>
          ))}
        </section>
      )}
    </article>
  );
}
