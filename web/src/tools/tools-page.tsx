import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { asString, type JsonObject } from '../../../src/json.ts';
import { SignInRequired, type ToolServerLite } from '../api/requests.ts';
import { clockTime } from '../state/format-time.ts';
import { CopyButton } from '../ui/copy-button.tsx';
import controls from '../ui/controls.module.css';
import { TabBar } from '../ui/tab-bar.tsx';
import { PromptPanel, ResourcePanel } from './resource-panel.tsx';
import { ServerError, ToolConnection, type LoggedMessage } from './tool-connection.ts';
import { ToolPanel } from './tool-panel.tsx';
import styles from './tools-page.module.css';
import { useItems } from './use-items.ts';

type TabId = 'tools' | 'resources' | 'templates' | 'prompts' | 'frames';

const TABS: readonly { readonly id: TabId; readonly text: string }[] = [
  { id: 'tools', text: 'Tools' },
  { id: 'resources', text: 'Resources' },
  { id: 'templates', text: 'Templates' },
  { id: 'prompts', text: 'Prompts' },
  { id: 'frames', text: 'Frames' },
];

/** The methods of the lists, and the members of their results. */
const LISTS = {
  tools: ['tools/list', 'tools'],
  resources: ['resources/list', 'resources'],
  templates: ['resources/templates/list', 'resourceTemplates'],
  prompts: ['prompts/list', 'prompts'],
} as const;

const METHOD_NOT_FOUND = -32601;

/** The tool servers of this server: their lists, calls, resources, prompts, apps and frames. */
export function ToolsPage({
  servers,
  onError,
}: {
  readonly servers: readonly ToolServerLite[];
  readonly onError: (error: unknown) => void;
}): VNode {
  const [path, setPath] = useState(servers[0]?.path ?? '');
  const [tab, setTab] = useState<TabId>('tools');
  const [, setLogged] = useState(0);
  const connection = useMemo(
    () => new ToolConnection(path, () => setLogged((count) => count + 1)),
    [path],
  );
  return (
    <section class={styles['page']} aria-label="Tools" data-part="tools">
      <div class={styles['head']}>
        <h1>Tools</h1>
        <select
          aria-label="Tool server"
          value={path}
          onChange={(event) => setPath(event.currentTarget.value)}
        >
          {servers.map((server) => (
            <option key={server.path} value={server.path}>
              {server.name} ({server.path})
            </option>
          ))}
        </select>
      </div>
      <TabBar
        label="Parts of the server"
        tabs={TABS}
        chosen={tab}
        onChoose={setTab}
        prefix="tools"
      />
      <div
        id={`tools-${tab}`}
        role="tabpanel"
        aria-labelledby={`tools-tab-${tab}`}
        class={styles['body']}
        tabIndex={0}
      >
        {tab === 'frames' ? (
          <FrameList messages={connection.messages} />
        ) : (
          <ListView key={`${path} ${tab}`} connection={connection} kind={tab} onError={onError} />
        )}
      </div>
    </section>
  );
}

/** A list on the left, and the chosen item on the right. */
function ListView({
  connection,
  kind,
  onError,
}: {
  readonly connection: ToolConnection;
  readonly kind: keyof typeof LISTS;
  readonly onError: (error: unknown) => void;
}): VNode {
  const [method, member] = LISTS[kind];
  const [problem, setProblem] = useState('');
  const { items, isLoading, more, reload } = useItems(connection, method, member, (error) => {
    if (error instanceof SignInRequired) onError(error);
    else setProblem(listProblem(error));
  });
  const [filter, setFilter] = useState('');
  const [chosen, setChosen] = useState('');
  useChanges(connection, kind, reload);
  const shown = items.filter((item) => labelOf(item).toLowerCase().includes(filter.toLowerCase()));
  const item = items.find((each) => keyOf(each) === chosen);
  const Panel = kind === 'prompts' ? PromptPanel : ResourcePanel;
  return (
    <div class={styles['columns']}>
      <nav class={styles['list']} aria-label={`List of ${kind}`}>
        <input
          type="search"
          aria-label="Filter"
          placeholder="Filter"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
        {problem && <p class={controls['soft']}>{problem}</p>}
        <ul data-part="tool-list">
          {shown.map((each) => (
            <li key={keyOf(each)}>
              <button
                type="button"
                aria-current={keyOf(each) === chosen ? 'true' : undefined}
                onClick={() => setChosen(keyOf(each))}
              >
                {labelOf(each)}
              </button>
            </li>
          ))}
        </ul>
        {isLoading && <p class={controls['soft']}>Loading …</p>}
        {!isLoading && items.length === 0 && !problem && <p class={controls['soft']}>None.</p>}
        {more && (
          <button type="button" disabled={isLoading} onClick={more}>
            Load more
          </button>
        )}
      </nav>
      {item &&
        (kind === 'tools' ? (
          <ToolPanel key={chosen} connection={connection} tool={item} onError={onError} />
        ) : (
          <Panel key={chosen} connection={connection} item={item} onError={onError} />
        ))}
    </div>
  );
}

const CHANGES = {
  tools: 'toolsListChanged',
  resources: 'resourcesListChanged',
  templates: 'resourcesListChanged',
  prompts: 'promptsListChanged',
} as const;

/** Reads the list again when the server reports a change. */
function useChanges(
  connection: ToolConnection,
  kind: keyof typeof CHANGES,
  reload: () => void,
): void {
  useEffect(() => {
    const scope = new AbortController();
    const params = { notifications: { [CHANGES[kind]]: true } };
    const onMessage = ({ method }: JsonObject): void => {
      if (typeof method === 'string' && method.endsWith('/list_changed')) reload();
    };
    connection
      .request('subscriptions/listen', params, { onMessage, signal: scope.signal })
      .catch(() => {}); // without changes, the list is as it was read
    return () => scope.abort();
  }, [connection, kind]);
}

const keyOf = ({ uri, uriTemplate, name }: JsonObject): string =>
  String(uri ?? uriTemplate ?? name);

const labelOf = (item: JsonObject): string =>
  asString(item['title'], asString(item['name'], keyOf(item)));

function listProblem(error: unknown): string {
  if (error instanceof ServerError && error.error['code'] === METHOD_NOT_FOUND)
    return 'The server has none.';
  return error instanceof Error ? error.message : String(error);
}

/** The messages of both directions, newest first. */
function FrameList({ messages }: { readonly messages: readonly LoggedMessage[] }): VNode {
  if (messages.length === 0) return <p class={controls['soft']}>No message yet.</p>;
  return (
    <ol class={styles['frames']} data-part="tool-frames">
      {messages.toReversed().map(({ number, at, direction, message }) => (
        <li key={number} data-direction={direction}>
          <details>
            <summary>
              {direction === 'out' ? '→' : '←'} {frameTitle(message)}{' '}
              <span class={controls['soft']}>{clockTime(at)}</span>
            </summary>
            <pre>{JSON.stringify(message, null, 2)}</pre>
            <CopyButton label="Copy JSON" text={() => JSON.stringify(message)} />
          </details>
        </li>
      ))}
    </ol>
  );
}

function frameTitle({ method, id, error }: JsonObject): string {
  const number = typeof id === 'number' ? ` ${id}` : '';
  if (typeof method === 'string') return `${method}${number}`;
  return `${error === undefined ? 'result' : 'error'}${number}`;
}
