import type { VNode } from 'preact';
import type { Artifact as ArtifactValue, Part } from '../../../src/event/types.ts';
import { isObject } from '../../../src/json.ts';
import controls from '../ui/controls.module.css';
import { DataView } from '../ui/data-view.tsx';
import { Markdown } from '../ui/markdown.tsx';
import type { CitedSource } from '../state/cited-sources.ts';
import styles from './artifact-card.module.css';

type Sources = ReadonlyMap<string, CitedSource>;

/** An artifact in readable form, with a download of its exact content. */
export function ArtifactCard({
  artifact,
  sources,
}: {
  readonly artifact: ArtifactValue;
  readonly sources: Sources;
}): VNode {
  const { artifactId, name = artifactId, parts } = artifact;
  const blob = parts.map(blobPath).find((path) => path !== undefined);
  return (
    <details class={styles['card']} data-part="artifact" open>
      <summary>{name}</summary>
      {parts.map((part, i) => (
        <PartView key={i} part={part} sources={sources} />
      ))}
      {blob === undefined ? (
        <button type="button" onClick={() => download(name, parts)}>
          Download {name}
        </button>
      ) : (
        <a class={controls['linkButton']} href={blob} download>
          Download {name}
        </a>
      )}
    </details>
  );
}

/**
 * The path of a file that this server stores and the part only names. Every other address is
 * ignored: an agent could otherwise send the user to a foreign site with a download link.
 */
function blobPath(part: Part): string | undefined {
  if (!('data' in part) || !isObject(part.data) || part.data['type'] !== 'artifact')
    return undefined;
  const { uri } = part.data;
  return typeof uri === 'string' && /^\/blobs\/[\w.-]+$/.test(uri) ? uri : undefined;
}

/** Image types that the browser draws without running anything; SVG is not among them. */
const SHOWN_IMAGES = /^image\/(png|jpeg|gif|webp)$/;

function PartView({ part, sources }: { readonly part: Part; readonly sources: Sources }): VNode {
  if ('data' in part) return <DataView value={part.data} sources={sources} />;
  if ('url' in part) {
    const label = part.filename ?? part.url;
    return /^https?:/i.test(part.url) ? (
      <a href={part.url} target="_blank" rel="noopener noreferrer">
        {label}
      </a>
    ) : (
      <span>{label}</span>
    );
  }
  if ('bytes' in part) {
    const label = part.filename ?? `${part.bytes.length.toLocaleString()} bytes`;
    return SHOWN_IMAGES.test(part.mediaType) ? (
      <img alt={label} src={`data:${part.mediaType};base64,${base64(part.bytes)}`} />
    ) : (
      <p class={controls['soft']}>
        {label} ({part.mediaType})
      </p>
    );
  }
  const { text, mediaType = '' } = part;
  if (mediaType === 'text/markdown') return <Markdown text={text} />;
  const data = mediaType === 'application/json' ? parse(text) : undefined;
  return data === undefined ? (
    <pre tabIndex={0}>{text}</pre>
  ) : (
    <DataView value={data} sources={sources} />
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined; // not JSON: shown as text
  }
}

const EXTENSIONS: Readonly<Record<string, string>> = {
  'text/markdown': 'md',
  'text/csv': 'csv',
  'text/html': 'html',
  'application/json': 'json',
  'application/sql': 'sql',
  'application/pdf': 'pdf',
  'image/png': 'png',
  'image/jpeg': 'jpg',
};

function download(name: string, parts: readonly Part[]): void {
  const [first] = parts;
  const contents = parts.map((part) => {
    if ('data' in part) return `${JSON.stringify(part.data, null, 2)}\n`;
    if ('bytes' in part) return new Uint8Array(part.bytes);
    return 'url' in part ? `${part.url}\n` : part.text;
  });
  const type = first?.mediaType ?? (first && 'data' in first ? 'application/json' : 'text/plain');
  const extension = /\.\w+$/.test(name) ? '' : `.${EXTENSIONS[type] ?? 'txt'}`;
  const url = URL.createObjectURL(new Blob(contents, { type: 'application/octet-stream' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = (first && 'filename' in first && first.filename) || `${name}${extension}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url));
}

function base64(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
