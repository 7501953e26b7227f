import { render } from 'preact';
import { App } from './app.tsx';
import { applyTheme } from './shell/top-bar.tsx';
// The order matters: the rules of components override those of plain elements.
import './style/tokens.css';
import './style/elements.css';

applyTheme();
render(<App />, document.body);
