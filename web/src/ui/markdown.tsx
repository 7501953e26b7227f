import type { Token, Tokens } from 'marked';
import type { ComponentChildren, VNode } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { MarkdownSlices, type Slice } from './markdown-slices.ts';
import styles from './markdown.module.css';

/**
 * Markdown as elements, never as HTML: a tag in the text of a model is shown as text. Links lead to
 * web and mail addresses only. Images are shown as text, because loading one would report the
 * user's address, and whatever the model put into the URL, to its host.
 */
export function Markdown({ text }: { readonly text: string }): VNode {
  const [slices] = useState(() => new MarkdownSlices());
  // Preact skips nodes that are identical, so that in a long conversation only the growing block
  // costs.
  return useMemo(
    () => (
      <div class={styles['text']} data-part="markdown">
        {slices.read(text).map((slice, index) => (
          <Sliced key={index} slice={slice} />
        ))}
      </div>
    ),
    [text],
  );
}

const Sliced = ({ slice }: { readonly slice: Slice }): VNode =>
  useMemo(
    () =>
      slice.tokens ? (
        <>{blocks(slice.tokens)}</>
      ) : (
        <div class={styles['unparsed']} data-part="unparsed">
          {slice.text}
        </div>
      ),
    [slice],
  );

const blocks = (tokens: readonly Token[]): ComponentChildren[] => tokens.map(block);

function block(token: Token): ComponentChildren {
  switch (token.type) {
    case 'heading': {
      const { depth, tokens } = token as Tokens.Heading;
      const Tag = `h${Math.min(depth + 2, 6)}` as 'h3';
      return <Tag>{inline(tokens)}</Tag>;
    }
    case 'paragraph':
      return <p>{inline((token as Tokens.Paragraph).tokens)}</p>;
    case 'blockquote':
      return <blockquote>{blocks((token as Tokens.Blockquote).tokens)}</blockquote>;
    case 'code':
      return (
        <pre tabIndex={0}>
          <code>{(token as Tokens.Code).text}</code>
        </pre>
      );
    case 'list': {
      const { ordered, items } = token as Tokens.List;
      const children = items.map((item) => <li>{blocks(item.tokens)}</li>);
      return ordered ? <ol>{children}</ol> : <ul>{children}</ul>;
    }
    case 'table': {
      const { header, rows } = token as Tokens.Table;
      return (
        <table>
          <thead>
            <tr>
              {header.map((cell) => (
                <th>{inline(cell.tokens)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>
                {row.map((cell) => (
                  <td>{inline(cell.tokens)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      );
    }
    case 'hr':
      return <hr />;
    case 'space':
      return null;
    default:
      return 'tokens' in token && token.tokens ? inline(token.tokens) : token.raw;
  }
}

const inline = (tokens: readonly Token[]): ComponentChildren[] =>
  tokens.map((token): ComponentChildren => {
    switch (token.type) {
      case 'strong':
        return <strong>{inline((token as Tokens.Strong).tokens)}</strong>;
      case 'em':
        return <em>{inline((token as Tokens.Em).tokens)}</em>;
      case 'del':
        return <del>{inline((token as Tokens.Del).tokens)}</del>;
      case 'codespan':
        return <code>{(token as Tokens.Codespan).text}</code>;
      case 'br':
        return <br />;
      case 'link': {
        const { href, tokens: label } = token as Tokens.Link;
        if (!/^(https?:|mailto:)/i.test(href)) return inline(label);
        return (
          <a href={href} target="_blank" rel="noopener noreferrer nofollow">
            {inline(label)}
          </a>
        );
      }
      case 'text':
        return 'tokens' in token && token.tokens
          ? inline(token.tokens)
          : (token as Tokens.Text).text;
      case 'escape':
        return (token as Tokens.Escape).text;
      default:
        return token.raw;
    }
  });
