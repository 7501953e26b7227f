import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { signIn } from '../api/requests.ts';
import controls from '../ui/controls.module.css';
import styles from './sign-in.module.css';
import { Wordmark } from './wordmark.tsx';

/** The sign-in form of a server with authentication. */
export function SignIn({ onDone }: { readonly onDone: () => void }): VNode {
  const [secret, setSecret] = useState('');
  const [error, setError] = useState('');
  const submit = async (): Promise<void> => {
    setError('');
    try {
      await signIn(secret);
      onDone();
    } catch (reason) {
      setError(reason instanceof Error ? reason.message : String(reason));
    }
  };
  return (
    <main class={styles['page']}>
      <form
        class={styles['form']}
        aria-label="Sign in"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <h1>
          <Wordmark />
        </h1>
        <p>Sign in to continue.</p>
        <label>
          Token or key
          <input
            type="password"
            autocomplete="current-password"
            value={secret}
            aria-invalid={error !== ''}
            onInput={(event) => setSecret(event.currentTarget.value)}
          />
        </label>
        {error && (
          <p class={controls['error']} role="alert">
            {error}
          </p>
        )}
        <button type="submit" class={controls['primary']} disabled={secret === ''}>
          Sign in
        </button>
      </form>
    </main>
  );
}
