import type { VNode } from 'preact';
import { asObject, asObjects, type JsonObject } from '../../../src/json.ts';
import controls from '../ui/controls.module.css';
import styles from './tools-page.module.css';

const IMAGE = /^image\/(png|jpeg|gif|webp)$/;

/** The result of a call: its content, its structured content, and whether the tool failed. */
export function ResultView({ result }: { readonly result: JsonObject }): VNode {
  const { structuredContent, isError, content } = result;
  return (
    <section aria-label="Result" data-part="tool-result" data-failed={isError === true}>
      <h3>{isError === true ? 'The tool failed' : 'Result'}</h3>
      {asObjects(content).map((block, i) => (
        <BlockView key={i} block={block} />
      ))}
      {structuredContent !== undefined && (
        <>
          <h3>Structured content</h3>
          <pre>{JSON.stringify(structuredContent, null, 2)}</pre>
        </>
      )}
    </section>
  );
}

/** One block of content, or one part of a resource. */
export function BlockView({ block }: { readonly block: JsonObject }): VNode {
  const { type, text, data, mimeType, resource, blob, uri } = block;
  if (type === 'resource') return <BlockView block={asObject(resource)} />;
  const bytes = typeof data === 'string' ? data : typeof blob === 'string' ? blob : undefined;
  const label = [uri, mimeType].filter((each) => typeof each === 'string').join(', ');
  return (
    <div>
      {label !== '' && <p class={controls['soft']}>{label}</p>}
      {typeof text === 'string' ? (
        <pre class={styles['text']}>{text}</pre>
      ) : bytes !== undefined && typeof mimeType === 'string' && IMAGE.test(mimeType) ? (
        <img class={styles['image']} src={`data:${mimeType};base64,${bytes}`} alt={label} />
      ) : (
        <pre class={styles['text']}>{JSON.stringify(block, null, 2)}</pre>
      )}
    </div>
  );
}
