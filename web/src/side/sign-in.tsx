import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { signIn } from '../api.ts';

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
    <main class="sign-in">
      <form
        class="run-form"
        aria-label="Sign in"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <h1>Duolane</h1>
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
          <p class="text-error" role="alert">
            {error}
          </p>
        )}
        <button type="submit" class="button-primary" disabled={secret === ''}>
          Sign in
        </button>
      </form>
    </main>
  );
}
