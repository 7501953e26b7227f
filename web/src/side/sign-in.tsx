import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { signIn } from '../api.ts';

/** Asks for the secret of a server that wants one. */
export function SignIn({ onDone }: { readonly onDone: () => void }): VNode {
  const [secret, setSecret] = useState('');
  const [error, setError] = useState('');
  const show = async (): Promise<void> => {
    setError('');
    try {
      await signIn(secret);
      onDone();
    } catch (reason) {
      setError(reason instanceof Error ? reason.message : String(reason));
    }
  };
  return (
    <main class="sign-in">
      <form
        class="run"
        aria-label="Sign in"
        onSubmit={(event) => {
          event.preventDefault();
          void show();
        }}
      >
        <h1>Duolane</h1>
        <p>This server wants to know who you are.</p>
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
          <p class="error" role="alert">
            {error}
          </p>
        )}
        <button type="submit" class="primary" disabled={secret === ''}>
          Sign in
        </button>
      </form>
    </main>
  );
}
